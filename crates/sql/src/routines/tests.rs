//! What calls become, without a database.

use super::expand::expand;
use super::resolve::{Inferred, Types, infer};
use super::scopes::{Lookup, Scopes};
use crate::lower::scope::ParameterTypes;
use crate::privileges::Check;
use base::element::Element;
use base::error::{SqlResult, SqlState};
use base::routines::{
    Estimates, Form, Language, Parallel, Parameter, Polymorphic, ResultOf, Routine, TypeOf, Volatility,
};
use base::schema::{Catalog, SchemaAction, SchemaChange};
use base::views::View;
use base::{DataType, TableId};

const INT: DataType = DataType::Integer;

fn routine(
    id: u32,
    name: &str,
    parameters: &[(&str, DataType)],
    result: ResultOf,
    body: &str,
) -> SchemaAction {
    let parameter = |(name, of): &(&str, DataType)| Parameter {
        name: Some(name.to_string()),
        of: TypeOf::from(*of),
        default: None,
    };
    SchemaAction::PutRoutine(Routine {
        id: TableId(id),
        schema: "public".into(),
        name: name.into(),
        parameters: parameters.iter().map(parameter).collect(),
        result,
        language: Language::Sql,
        volatility: Volatility::Volatile,
        is_strict: name.starts_with("strict"),
        is_leakproof: false,
        parallel: Parallel::Unsafe,
        estimates: Estimates::default(),
        body: body.into(),
        is_standard: false,
        is_variadic: false,
        is_definer: false,
        form: Form::Plain,
    })
}

/// The same with other types of arguments.
fn retyped(made: SchemaAction, types: &[TypeOf], is_variadic: bool) -> SchemaAction {
    let SchemaAction::PutRoutine(mut made) = made else { panic!("it puts a function") };
    made.parameters.iter_mut().zip(types).for_each(|(parameter, of)| parameter.of = *of);
    made.is_variadic = is_variadic;
    SchemaAction::PutRoutine(made)
}

/// Functions over a relation `t (id, a)`.
fn catalog() -> Catalog {
    let columns = vec![("id".to_string(), INT), ("a".to_string(), INT)];
    let shape = View::shape(TableId(1), "public".into(), "t".into(), columns);
    let one = ResultOf::One(INT.into());
    let any = TypeOf::from(Polymorphic::Element);
    let array = DataType::Array(Element::of(INT).unwrap());
    let pick = routine(11, "pick", &[("x", INT), ("y", INT)], ResultOf::One(any), "SELECT y");
    let many = routine(12, "many", &[("x", INT)], one.clone(), "SELECT cardinality(x)");
    let actions = vec![
        SchemaAction::CreateTable(shape),
        routine(2, "add", &[("x", INT), ("y", INT)], one.clone(), "SELECT x + y"),
        routine(3, "find", &[("n", INT)], one.clone(), "SELECT a FROM t WHERE id = n"),
        routine(4, "strict_add", &[("x", INT)], one.clone(), "SELECT x + 1"),
        routine(5, "double", &[("x", INT)], one.clone(), "SELECT x + x"),
        routine(6, "endless", &[("x", INT)], one.clone(), "SELECT endless(x)"),
        routine(7, "of", &[("x", INT)], ResultOf::One(DataType::Text.into()), "SELECT 'int'"),
        routine(8, "of", &[("x", DataType::Text)], ResultOf::One(DataType::Text.into()), "SELECT 'text'"),
        routine(9, "twice", &[("x", INT)], one, "SELECT 1; SELECT 2"),
        routine(10, "rows", &[("n", INT)], ResultOf::SetOfRows(TableId(1)), "SELECT * FROM t WHERE id > n"),
        retyped(pick, &[any, any], false),
        retyped(many, &[array.into()], true),
    ];
    let mut catalog = Catalog::default();
    catalog.apply(&SchemaChange { database: Default::default(), base_version: 0, actions }).unwrap();
    catalog
}

fn expanded(sql: &str) -> SqlResult<String> {
    let catalog = catalog();
    let standing = catalog.roles.standing(base::roles::ROOT);
    let path = ["public".to_string()];
    let check = Check { catalog: &catalog, search_path: &path, database: "meridian", standing: &standing };
    let statement = crate::parse::parse(sql)?.pop().expect("a statement");
    let found = expand(&check, &ParameterTypes::default(), &statement)?;
    Ok(found
        .map_or_else(|| statement.to_string(), |found| found.statement.to_string())
        .replace('\u{f8ff}', "~"))
}

#[test]
fn calls_become_what_bodies_say() {
    for (sql, wanted) in [
        ("SELECT lower('A'), 1", "SELECT lower('A'), 1"),
        ("SELECT add(1, 2)", "SELECT (1 + 2) AS add"),
        ("SELECT add(y => id, x => a) AS s FROM t", "SELECT (a + id) AS s FROM t"),
        ("UPDATE t SET a = add(a, 1)", "UPDATE t SET a = (a + 1)"),
        ("SELECT add(add(1, 2), 3)", "SELECT ((1 + 2) + 3) AS add"),
        ("SELECT add('1', 2)", "SELECT (CAST('1' AS INTEGER) + 2) AS add"),
        (
            "SELECT strict_add(a) FROM t",
            "SELECT (CASE WHEN a IS NULL THEN NULL ELSE a + 1 END) AS strict_add FROM t",
        ),
        ("SELECT strict_add(1)", "SELECT (1 + 1) AS strict_add"),
        ("SELECT of(1), of('x')", "SELECT (CAST('int' AS TEXT)) AS of, (CAST('text' AS TEXT)) AS of"),
        (
            "SELECT find(o.id) FROM t AS o",
            "SELECT ((SELECT a FROM public.t WHERE id = o.id LIMIT 1)) AS find FROM t AS o",
        ),
        (
            "SELECT find(a) FROM t",
            "SELECT ((SELECT a FROM public.t AS \"~t\" WHERE id = t.a LIMIT 1)) AS find FROM t",
        ),
        ("SELECT pick(1, 2)", "SELECT (2) AS pick"),
        ("SELECT pick(x := 1, y := '2')", "SELECT (CAST('2' AS INTEGER)) AS pick"),
        ("SELECT many(1, 2)", "SELECT (CAST(cardinality((ARRAY[1, 2])) AS INTEGER)) AS many"),
        ("SELECT many(VARIADIC ARRAY[1])", "SELECT (CAST(cardinality((ARRAY[1])) AS INTEGER)) AS many"),
        ("SELECT * FROM rows(3) AS r", "SELECT * FROM (SELECT * FROM public.t WHERE id > 3) AS r (id, a)"),
    ] {
        assert_eq!(expanded(sql).unwrap(), wanted, "{sql}");
    }
}

#[test]
fn a_volatile_argument_is_computed_once() {
    let sql = expanded("SELECT double(random()::int)").unwrap();
    assert_eq!(sql.matches("random").count(), 1, "{sql}");
    assert!(sql.contains("\"~arguments\".argument1 + \"~arguments\".argument1"), "{sql}");
}

#[test]
fn what_cannot_be_expanded_is_refused() {
    for (sql, state) in [
        ("SELECT endless(1)", SqlState::STATEMENT_TOO_COMPLEX),
        ("SELECT twice(1) + 1", SqlState::FEATURE_NOT_SUPPORTED),
        ("SELECT find(count(*)::int) FROM t", SqlState::FEATURE_NOT_SUPPORTED),
        ("SELECT public.of(true)", SqlState::UNDEFINED_FUNCTION),
        ("SELECT public.pick(1, 2.5)", SqlState::UNDEFINED_FUNCTION),
        ("SELECT public.many(ARRAY[1])", SqlState::UNDEFINED_FUNCTION),
        ("SELECT pick('a', 'b')", SqlState::DATATYPE_MISMATCH),
        ("SELECT add(x => 1, 2)", SqlState::SYNTAX_ERROR),
        ("SELECT id, rows(1) FROM t", SqlState::FEATURE_NOT_SUPPORTED),
    ] {
        assert_eq!(expanded(sql).unwrap_err().state, state, "{sql}");
    }
    let nested = format!("SELECT {}1{}", "double(".repeat(20), ")".repeat(20));
    assert_eq!(expanded(&nested).unwrap_err().state, SqlState::STATEMENT_TOO_COMPLEX);
}

#[test]
fn types_are_inferred_as_far_as_texts_tell() {
    let (catalog, scopes, parameters) =
        (catalog(), Scopes::default(), ParameterTypes(vec![Some(DataType::Uuid)]));
    let path = ["public".to_string()];
    let lookup = Lookup { catalog: &catalog, search_path: &path, database: "meridian" };
    let types = Types { lookup, scopes: &scopes, parameters: &parameters, is_body: false };
    for (sql, wanted) in [
        ("1 + 2", Inferred::Known(INT)),
        ("1 + 3000000000", Inferred::Known(DataType::BigInt)),
        ("1.5 * 2", Inferred::Known(crate::types::NUMERIC)),
        ("'x'", Inferred::Untyped),
        ("NULL", Inferred::Untyped),
        ("$1", Inferred::Known(DataType::Uuid)),
        ("$2", Inferred::Untyped),
        ("'1'::varchar(3)", Inferred::Known(DataType::Text)),
        ("a > 1", Inferred::Known(DataType::Boolean)),
        ("add(1, 2)", Inferred::Known(INT)),
        ("pick(1, 2)", Inferred::Known(INT)),
        ("ARRAY[1, 2]", Inferred::Known(DataType::Array(Element::of(INT).unwrap()))),
        ("CASE WHEN a THEN 1 ELSE 2.5 END", Inferred::Known(crate::types::NUMERIC)),
        ("somewhere", Inferred::Unknown),
    ] {
        assert_eq!(infer(types, &crate::parse::parse_expr(sql).unwrap()), wanted, "{sql}");
    }
}
