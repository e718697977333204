//! Unicode normal forms of texts: `normalize`, `IS NORMALIZED`.

use super::rowwise::{Cell, Returns};
use super::small_functions::{Small, no_such, text_of};
use base::error::SqlResult;
use base::{DataType, Datum, SqlError, SqlState};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{ScalarUDF, Signature, TypeSignature, Volatility};
use datafusion::sql::sqlparser::ast::Expr;
use unicode_normalization::UnicodeNormalization;

/// The function of texts and their forms; the form may be left out.
const NORMALIZE: &str = "normalize";

/// The test as a function of a text and a form.
const IS_NORMALIZED: &str = "meridian_is_normalized";

const FORMS: [&str; 4] = ["NFC", "NFD", "NFKC", "NFKD"];

/// Makes the functions known.
pub(super) fn install(context: &SessionContext) {
    let counts = vec![TypeSignature::Any(1), TypeSignature::Any(2)];
    let functions = [
        Small {
            name: NORMALIZE,
            signature: Signature::one_of(counts, Volatility::Immutable),
            returns: Returns::Plain(DataType::Text),
            is_strict: true,
            compute: |cells| normalized(cells).map(|(_, normal)| Cell::Plain(Datum::text(normal))),
        },
        Small {
            name: IS_NORMALIZED,
            signature: Signature::any(2, Volatility::Immutable),
            returns: Returns::Plain(DataType::Boolean),
            is_strict: true,
            compute: |cells| normalized(cells).map(|(of, normal)| Cell::Plain(Datum::Bool(of == normal))),
        },
    ];
    functions.into_iter().for_each(|function| context.register_udf(ScalarUDF::new_from_impl(function)));
}

/// `normalize(text, form)` with its form as a text, which is written as a word. `None` for other forms.
pub(super) fn with_form(of: &Expr, form: &Expr) -> Option<Expr> {
    let Expr::Identifier(form) = form else { return None };
    let form = FORMS.iter().find(|known| form.value.eq_ignore_ascii_case(known))?;
    sql::parse::parse_expr(&format!("{NORMALIZE}({of}, '{form}')")).ok()
}

/// `IS [NOT] [form] NORMALIZED` as a function; `None` for other expressions.
pub(super) fn as_function(e: &Expr) -> Option<Expr> {
    let Expr::IsNormalized { expr, form, negated } = e else { return None };
    let form = form.as_ref().map_or_else(|| FORMS[0].to_string(), ToString::to_string);
    let not = if *negated { "NOT " } else { "" };
    sql::parse::parse_expr(&format!("{not}{IS_NORMALIZED}({expr}, '{form}')")).ok()
}

/// A text and its normal form. Errors: 22023 for a form that there is not, 42883 for what is no text.
fn normalized(cells: &[Cell]) -> SqlResult<(&str, String)> {
    let [of, form @ ..] = cells else { return Err(no_such("function normalize")) };
    let of = text_of(of)?.unwrap_or_default();
    let form = form.first().map(text_of).transpose()?.flatten().unwrap_or(FORMS[0]);
    let normal = match form {
        "NFC" => of.nfc().collect(),
        "NFD" => of.nfd().collect(),
        "NFKC" => of.nfkc().collect(),
        "NFKD" => of.nfkd().collect(),
        other => {
            let told = format!("invalid normalization form: {other}");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, told));
        }
    };
    Ok((of, normal))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str, form: &str) -> SqlResult<String> {
        let cells = [text, form].map(|text| Cell::Plain(Datum::text(text)));
        normalized(&cells).map(|(_, normal)| normal)
    }

    #[test]
    fn a_text_has_four_forms() {
        assert_eq!(normal("a\u{308}bc", "NFC").unwrap(), "\u{e4}bc");
        assert_eq!(normal("\u{e4}", "NFD").unwrap(), "a\u{308}");
        assert_eq!(normal("\u{fb01}", "NFKC").unwrap(), "fi");
        assert_eq!(normal("\u{fb01}", "NFC").unwrap(), "\u{fb01}");
        assert_eq!(normal("a", "def").unwrap_err().state, SqlState::INVALID_PARAMETER_VALUE);
    }

    #[test]
    fn forms_are_written_as_words() {
        let parsed = |text: &str| sql::parse::parse_expr(text).unwrap();
        let call = with_form(&parsed("a"), &parsed("nfkc")).unwrap();
        assert_eq!(call.to_string(), "normalize(a, 'NFKC')");
        assert_eq!(with_form(&parsed("a"), &parsed("b")), None);
        let test = as_function(&parsed("a IS NOT NFD NORMALIZED")).unwrap();
        assert_eq!(test.to_string(), "NOT meridian_is_normalized(a, 'NFD')");
    }
}
