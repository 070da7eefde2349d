//! Which items are built on this system. Only those are mutated.

use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// Whether every `cfg` of these attributes holds on Linux, outside of unit tests.
pub(crate) fn is_built(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .all(|attribute| attribute.parse_args::<Meta>().is_ok_and(|predicate| holds(&predicate)))
}

fn holds(predicate: &Meta) -> bool {
    match predicate {
        Meta::Path(path) => path.is_ident("unix") || path.is_ident("debug_assertions"),
        Meta::NameValue(pair) => {
            let value = match &pair.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => text.value(),
                _ => return false,
            };
            pair.path.is_ident("target_os") && value == "linux"
        }
        Meta::List(list) => {
            let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
            let Ok(parts) = parser.parse2(list.tokens.clone()) else { return false };
            let mut parts = parts.iter().map(holds);
            match list.path.get_ident().map(ToString::to_string).as_deref() {
                Some("not") => !parts.all(|part| part),
                Some("any") => parts.any(|part| part),
                _ => parts.all(|part| part),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_built;

    fn built(cfg: &str) -> bool {
        let item: syn::ItemFn = syn::parse_str(&format!("#[cfg({cfg})] fn f() {{}}")).unwrap();
        is_built(&item.attrs)
    }

    #[test]
    fn an_item_of_another_system_or_of_a_test_is_not_built() {
        assert!(built("unix"));
        assert!(built("any(target_os = \"linux\", target_os = \"android\")"));
        assert!(built("not(target_vendor = \"apple\")"));
        assert!(!built("not(any(target_os = \"linux\", target_os = \"android\"))"));
        assert!(!built("test"));
        assert!(!built("all(unix, windows)"));
    }
}
