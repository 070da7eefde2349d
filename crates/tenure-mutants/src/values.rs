//! What a function could return instead of doing its work, guessed from its return type.
//!
//! The compiler rejects guesses that do not fit.

use syn::{GenericArgument, PathArguments, ReturnType, Type};

/// The expressions to try; empty for types without a simple value.
pub(crate) fn of(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".to_owned()],
        ReturnType::Type(_, kind) => of_type(kind),
    }
}

/// Whether it is `Result<()>`, whose last call can be left out.
pub(crate) fn is_unit_result(output: &ReturnType) -> bool {
    of(output) == ["Ok(())"]
}

fn of_type(kind: &Type) -> Vec<String> {
    match kind {
        Type::Tuple(tuple) if tuple.elems.is_empty() => vec!["()".to_owned()],
        Type::Tuple(tuple) => {
            let parts: Option<Vec<String>> =
                tuple.elems.iter().map(|part| of_type(part).into_iter().next()).collect();
            parts.map(|parts| format!("({})", parts.join(", "))).into_iter().collect()
        }
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => vec!["\"\"".to_owned()],
            Type::Slice(_) => vec!["&[]".to_owned()],
            _ => Vec::new(),
        },
        Type::Path(path) => of_path(&path.path),
        _ => Vec::new(),
    }
}

fn of_path(path: &syn::Path) -> Vec<String> {
    let Some(last) = path.segments.last() else { return Vec::new() };
    let inner = || match &last.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
            Some(GenericArgument::Type(kind)) => of_type(kind),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    let wrapped = |name: &str| inner().iter().map(|value| format!("{name}({value})")).collect();
    match last.ident.to_string().as_str() {
        "bool" => vec!["true".to_owned(), "false".to_owned()],
        "Result" => wrapped("Ok"),
        "Option" => {
            let mut values: Vec<String> = wrapped("Some");
            values.insert(0, "None".to_owned());
            values
        }
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i32" | "i64" | "Fence" | "Version" => {
            vec!["0".to_owned(), "1".to_owned()]
        }
        "Vec" => vec!["Vec::new()".to_owned()],
        _ => vec!["Default::default()".to_owned()],
    }
}
