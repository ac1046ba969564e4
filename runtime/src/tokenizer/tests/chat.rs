//! Chat templates: where they are found, how they render, and how they fail.

use std::collections::BTreeMap;

use jiff::ZonedDateTime;
use serde_json::{Map, Value, json};

use super::{Folder, byte_level};
use crate::tokenizer::template::{ChatTemplate, Context};
use crate::tokenizer::{Message, TemplateError, TokenizerError};

/// Renders a template with one message of the user, at a fixed time.
fn render(source: &str) -> Result<String, TemplateError> {
    render_with(source, &json!([{"role": "user", "content": "Hi"}]), &json!({}))
}

fn render_with(source: &str, messages: &Value, variables: &Value) -> Result<String, TemplateError> {
    let messages: Vec<Map<String, Value>> = serde_json::from_value(messages.clone()).expect("objects");
    let variables: Map<String, Value> = serde_json::from_value(variables.clone()).expect("an object");
    let special = BTreeMap::from([("bos_token".to_owned(), "<s>".to_owned())]);
    let context = Context {
        messages: &messages,
        tools: None,
        variables: &variables,
        add_generation_prompt: true,
        special: &special,
    };
    let now: ZonedDateTime = "2026-03-09T07:05:00+00:00[UTC]".parse().expect("a time");
    ChatTemplate::new("chat_template.jinja".to_owned(), source).render(&context, &now)
}

#[track_caller]
fn assert_renders(source: &str, expected: &str) {
    assert_eq!(render(source).as_deref(), Ok(expected), "{source}");
}

#[test]
fn a_conversation_renders_with_its_tokens_and_the_next_turn() -> Result<(), TokenizerError> {
    let source = "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}] {{ message.content }}{{ eos_token }}\n\
                  {% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}";
    let tokenizer = Folder::with(&byte_level())
        .json("tokenizer_config.json", &json!({"bos_token": "<|bos|>", "eos_token": "<|eos|>"}))
        .file("chat_template.jinja", source)
        .open();
    let messages = [Message::system("Be brief."), Message::user("Hi")];
    let start = "<|bos|>[system] Be brief.<|eos|>\n[user] Hi<|eos|>\n";
    assert_eq!(tokenizer.apply_chat_template(&messages, false)?, start);
    assert_eq!(tokenizer.apply_chat_template(&messages, true)?, format!("{start}[assistant] "));
    Ok(())
}

#[test]
fn templates_are_found_in_order_of_precedence() -> Result<(), TokenizerError> {
    let none = Folder::with(&byte_level());
    assert!(!none.open().has_chat_template());
    let message = none.open().apply_chat_template(&[], true).expect_err("there is none").to_string();
    assert!(
        message.contains("no chat template") && message.contains(&none.path().display().to_string()),
        "{message}"
    );

    let config = none.json("tokenizer_config.json", &json!({"chat_template": "config"}));
    assert_eq!(config.open().apply_chat_template(&[], true)?, "config");
    let json_file = config.json("chat_template.json", &json!({"chat_template": "json"}));
    assert_eq!(json_file.open().apply_chat_template(&[], true)?, "json");
    let jinja = json_file.file("chat_template.jinja", "jinja");
    assert!(jinja.open().has_chat_template());
    assert_eq!(jinja.open().apply_chat_template(&[], true)?, "jinja");
    Ok(())
}

#[test]
fn a_list_of_templates_has_a_default_and_one_for_tools() -> Result<(), TokenizerError> {
    let open = |names: &[&str]| {
        let list: Vec<_> = names
            .iter()
            .map(|name| json!({"name": name, "template": format!("{name} {{{{ tools }}}}")}))
            .collect();
        Folder::with(&byte_level()).json("tokenizer_config.json", &json!({"chat_template": list})).open()
    };
    let both = open(&["tool_use", "default"]);
    let none = Map::new();
    assert_eq!(both.apply_chat_template(&[], true)?, "default None");
    assert_eq!(both.apply_chat_template_to(&[], Some(&[json!(1)]), &none, true)?, "tool_use [1]");
    assert_eq!(
        open(&["default"]).apply_chat_template_to(&[], Some(&[json!(1)]), &none, true)?,
        "default [1]"
    );
    let message = open(&["rag"]).apply_chat_template(&[], true).expect_err("no default").to_string();
    assert!(
        message.contains("tokenizer_config.json (key chat_template)") && message.contains("rag"),
        "{message}"
    );
    Ok(())
}

#[test]
fn refuses_templates_that_are_no_text() {
    for value in [json!(1), json!({"a": 1}), json!([{"name": "default"}]), json!(["text"])] {
        let message = Folder::with(&byte_level())
            .json("chat_template.json", &json!({"chat_template": value}))
            .refused();
        assert!(message.contains("FOLDER/chat_template.json: chat_template is"), "{message}");
    }
    let message = Folder::with(&byte_level()).file("chat_template.jinja", b"\xff").refused();
    assert!(message.contains("FOLDER/chat_template.jinja"), "{message}");
}

#[test]
fn a_broken_template_is_an_error_with_file_line_and_reason_when_applied() {
    let folder = Folder::with(&byte_level()).file("chat_template.jinja", "one\ntwo\n{% for message in %}\n");
    match folder.open().apply_chat_template(&[], true) {
        Err(TokenizerError::Template(error)) => {
            assert_eq!(error.line, Some(3));
            assert!(error.origin.ends_with("chat_template.jinja"), "{error}");
            assert!(
                error.to_string().contains("line 3 of the template") && !error.message.is_empty(),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
    let folder =
        Folder::with(&byte_level()).json("tokenizer_config.json", &json!({"chat_template": "{{ a.b.c }}"}));
    let message = folder.open().apply_chat_template(&[], true).expect_err("a is undefined").to_string();
    assert!(message.contains("tokenizer_config.json (key chat_template), line 1"), "{message}");
    for source in [
        "{% if %}",
        "{{",
        "{% endfor %}",
        "{{ nothing() }}",
        "{{ 'a'.nothing() }}",
        "{{ 1 | nothing }}",
        "{% include 'x' %}",
    ] {
        assert!(render(source).is_err(), "{source}");
    }
}

#[test]
fn a_template_may_refuse_the_messages_in_its_own_words() {
    let error = render("\n{{ raise_exception('roles must alternate') }}").expect_err("it raises");
    assert_eq!((error.line, error.message.as_str()), (Some(2), "roles must alternate"));
}

#[test]
fn blocks_take_their_line_break_and_indentation_with_them() {
    assert_renders("a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc");
    assert_renders("a \n{%- if true -%}\n b {%- endif %} c", "ab c");
    assert_renders("a {# note #}\nb", "a b");
    assert_renders("a\r\n{% if true %}\r\nb{% endif %}", "a\nb");
}

#[test]
fn the_language_is_that_of_chat_templates() {
    assert_renders(
        "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ loop.index0 }}{% endfor %}",
        "02",
    );
    assert_renders(
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
        "1",
    );
    assert_renders(
        "{{ messages[0]['content'] }}{{ messages[-1].role }}{{ messages[::-1] | length }}{{ messages[1:] | length }}",
        "Hiuser10",
    );
    assert_renders(
        "{{ ' x '.strip() }}|{{ 'a-b'.split('-')[-1] }}|{{ 'ab'.startswith('a') }}|{{ 'ab'.upper() }}|{{ '\\nx\\n'.lstrip('\\n') }}",
        "x|b|True|AB|x\n",
    );
    assert_renders("{% macro say(x) %}<{{ x }}>{% endmacro %}{{ say('a') }}", "<a>");
    assert_renders(
        "{% for k, v in {'a': 1}.items() %}{{ k }}={{ v }}{% endfor %}{{ {'a': 1}.get('b', 2) }}",
        "a=12",
    );
    assert_renders(
        "{{ undefined_name }}|{{ messages[0].nothing }}|{{ nothing is defined }}|{{ none is none }}",
        "||False|True",
    );
    assert_renders(
        "{{ 'a' ~ 1 ~ none ~ true }}|{{ 'x' if false }}|{{ ['a', 1, none] }}",
        "a1NoneTrue||['a', 1, None]",
    );
    assert_renders("{{ '<b>' + '&' }}", "<b>&");
    assert_renders(
        "{{ 'a' is string }}{{ 'a' is sequence }}{{ {} is sequence }}{{ 'a' is iterable }}{{ 1 is sequence }}",
        "TrueTrueTrueTrueFalse",
    );
}

#[test]
fn marks_of_the_model_s_turns_print_nothing() {
    assert_renders("{% for m in messages %}{%- generation -%} x {% endgeneration %}{% endfor %}", "x ");
    assert_renders("a\n{% generation %}\nb\n{% endgeneration %}\nc", "a\nb\nc");
    assert_renders(
        "generation {{ 'generation' }} {% if true %}endgeneration{% endif %}",
        "generation generation endgeneration",
    );
    assert!(render("{% generation").is_err());
}

#[test]
fn methods_of_python_s_strings_are_there() {
    assert_renders(
        "{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }}{{ 'abc'.removeprefix('x') }}",
        "bcababc",
    );
    assert_renders(
        "{{ 'a-b-c'.partition('-') }}{{ 'abc'.partition('-') }}",
        "('a', '-', 'b-c')('abc', '', '')",
    );
    assert_renders(
        "{{ 'a-b-c'.rpartition('-') }}{{ 'abc'.rpartition('-') }}",
        "('a-b', '-', 'c')('', '', 'abc')",
    );
    assert_renders("{{ 'a-b-c'.rsplit('-', 1) }}{{ 'a-b-c'.rsplit('-') }}", "['a-b', 'c']['a', 'b', 'c']");
    assert_renders("{{ '  a  b c '.rsplit(none, 1) }}{{ ' a  b '.rsplit() }}", "['  a  b', 'c']['a', 'b']");
    assert!(render("{{ 'a'.rsplit('') }}").is_err());
    assert!(render("{{ 'a'.removeprefix(1) }}").is_err());
}

#[test]
fn json_is_written_as_python_writes_it() {
    let value = json!({"b": [1, -2.5, true, null], "a": "é <\"'&>\n\t\u{1}\u{7f}", "e": {}, "l": []});
    let write = |call: &str| render_with(&format!("{{{{ v | {call} }}}}"), &json!([]), &json!({"v": value}));
    assert_eq!(
        write("tojson").as_deref(),
        Ok("{\"b\": [1, -2.5, true, null], \"a\": \"é <\\\"'&>\\n\\t\\u0001\u{7f}\", \"e\": {}, \"l\": []}")
    );
    assert_eq!(
        write("tojson(indent=2, sort_keys=true, ensure_ascii=true)").as_deref(),
        Ok(
            "{\n  \"a\": \"\\u00e9 <\\\"'&>\\n\\t\\u0001\\u007f\",\n  \"b\": [\n    1,\n    -2.5,\n    true,\n    null\n  ],\n  \
            \"e\": {},\n  \"l\": []\n}"
        )
    );
    assert_renders("{{ [1, {'a': 2}] | tojson(separators=(',', ':')) }}", "[1,{\"a\":2}]");
    assert_renders("{{ '😀' | tojson(ensure_ascii=true) }}{{ '😀' | tojson }}", "\"\\ud83d\\ude00\"\"😀\"");
    assert_renders("{{ {1: 2} | tojson }}", "{\"1\": 2}");
}

#[test]
fn numbers_are_written_as_python_writes_them() {
    for (number, expected) in [
        (json!(0), "0"),
        (json!(-7), "-7"),
        (json!(u64::MAX), "18446744073709551615"),
        (json!(1.0), "1.0"),
        (json!(0.1), "0.1"),
        (json!(1e15), "1000000000000000.0"),
        (json!(1e16), "1e+16"),
        (json!(1.5e-5), "1.5e-05"),
        (json!(0.0001), "0.0001"),
        (json!(1.25e300), "1.25e+300"),
        (json!(-0.0), "-0.0"),
    ] {
        let written = render_with("{{ v | tojson }}", &json!([]), &json!({"v": number}));
        assert_eq!(written.as_deref(), Ok(expected));
    }
}

#[test]
fn json_refuses_what_it_cannot_write() {
    for call in [
        "nothing | tojson",
        "1 | tojson(indent=100000)",
        "1 | tojson(separators='x')",
        "1 | tojson(unknown=1)",
    ] {
        assert!(render(&format!("{{{{ {call} }}}}")).is_err(), "{call}");
    }
}

#[test]
fn the_clock_is_read_in_the_template_s_format() {
    assert_renders("{{ strftime_now('%d %b %Y') }}", "09 Mar 2026");
    assert_renders("{{ strftime_now('%Y-%m-%d %H:%M') }}", "2026-03-09 07:05");
    let error = render("{{ strftime_now('%!') }}").expect_err("no such directive");
    assert!(error.message.contains("strftime_now"), "{error}");
}

#[test]
fn fields_given_as_null_count_as_not_given() {
    let messages = json!([{"role": "assistant", "content": null, "tool_calls": null}]);
    let rendered = render_with(
        "{{ messages[0].content is defined }}{{ messages[0].tool_calls is defined }}",
        &messages,
        &json!({}),
    );
    assert_eq!(rendered.as_deref(), Ok("FalseFalse"));
}

#[test]
fn variables_of_the_caller_reach_the_template_but_cannot_replace_the_conversation() {
    let rendered = render_with(
        "{{ enable_thinking }}{{ bos_token }}{{ messages | length }}",
        &json!([]),
        &json!({"enable_thinking": false, "bos_token": "<x>", "messages": [1, 2]}),
    );
    assert_eq!(rendered.as_deref(), Ok("False<x>0"));
}
