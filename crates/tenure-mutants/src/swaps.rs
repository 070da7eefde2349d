//! What a small item can be replaced by.

use syn::BinOp;

/// Operators that could replace this one.
pub(crate) fn operators(operator: &BinOp) -> Vec<&'static str> {
    match operator {
        BinOp::Eq(_) => vec!["!="],
        BinOp::Ne(_) => vec!["=="],
        BinOp::Lt(_) => vec!["<=", ">="],
        BinOp::Le(_) => vec!["<", ">"],
        BinOp::Gt(_) => vec![">=", "<="],
        BinOp::Ge(_) => vec![">", "<"],
        BinOp::And(_) => vec!["||"],
        BinOp::Or(_) => vec!["&&"],
        BinOp::Add(_) => vec!["-"],
        BinOp::Sub(_) => vec!["+"],
        BinOp::Mul(_) | BinOp::Rem(_) => vec!["/"],
        BinOp::Div(_) => vec!["*"],
        BinOp::BitAnd(_) | BinOp::BitXor(_) => vec!["|"],
        BinOp::BitOr(_) => vec!["&"],
        BinOp::Shl(_) => vec![">>"],
        BinOp::Shr(_) => vec!["<<"],
        BinOp::AddAssign(_) => vec!["-="],
        BinOp::SubAssign(_) => vec!["+="],
        BinOp::BitOrAssign(_) => vec!["&="],
        BinOp::BitAndAssign(_) => vec!["|="],
        _ => Vec::new(),
    }
}

/// Whether it is exactly the opposite.
pub(crate) fn is_opposite(operator: &BinOp, other: &str) -> bool {
    matches!(
        (operator, other),
        (BinOp::Eq(_), "!=")
            | (BinOp::Ne(_), "==")
            | (BinOp::Lt(_), ">=")
            | (BinOp::Le(_), ">")
            | (BinOp::Gt(_), "<=")
            | (BinOp::Ge(_), "<")
    )
}

/// Whether an operator changes its left side.
pub(crate) fn assigns(operator: &BinOp) -> bool {
    matches!(
        operator,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

/// A method that could replace this one.
pub(crate) fn method(name: &str) -> Option<&'static str> {
    const PAIRS: &[(&str, &str)] = &[
        ("all", "any"),
        ("back", "front"),
        ("first", "last"),
        ("is_err", "is_ok"),
        ("is_none", "is_some"),
        ("is_none_or", "is_some_and"),
        ("max", "min"),
        ("pop_back", "pop_front"),
        ("push_back", "push_front"),
        ("saturating_add", "saturating_sub"),
        ("wrapping_add", "wrapping_sub"),
    ];
    PAIRS.iter().find_map(|(one, other)| match name {
        _ if name == *one => Some(*other),
        _ if name == *other => Some(*one),
        _ => None,
    })
}

/// A method that answers yes or no.
pub(crate) fn is_question(name: &str) -> bool {
    const NAMES: &[&str] = &["contains", "contains_key", "ends_with", "starts_with", "eq"];
    NAMES.contains(&name) || name.starts_with("is_") || name.starts_with("has_")
}

/// The other mode of a lock.
pub(crate) fn mode(path: &str) -> Option<String> {
    match path {
        "Mode::Exclusive" => Some("Mode::Shared".to_owned()),
        "Mode::Shared" => Some("Mode::Exclusive".to_owned()),
        _ => None,
    }
}
