//! The parts of chat completions, as requests have them.

use crate::front::probes::Probes;

pub(super) const PROBES: Probes = Probes {
    needed: &[r#""model":"m""#, r#""messages":[{"role":"user","content":"a"}]"#],
    parts: &[
        ("temperature", r#""temperature":0.5"#),
        ("top_p", r#""top_p":0.5"#),
        ("top_k", r#""top_k":5"#),
        ("n", r#""n":2"#),
        ("max_tokens", r#""max_tokens":9"#),
        ("stop", r#""stop":["a"]"#),
        ("seed", r#""seed":1"#),
        ("frequency_penalty", r#""frequency_penalty":0.5"#),
        ("presence_penalty", r#""presence_penalty":0.5"#),
        ("logit_bias", r#""logit_bias":{"1":1}"#),
        ("logprobs", r#""logprobs":true,"top_logprobs":2"#),
        ("tools", r#""tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]"#),
        (
            "tools[].function.strict",
            r#""tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{},"required":[],"additionalProperties":false}}}]"#,
        ),
        ("custom tools", r#""tools":[{"type":"custom","custom":{"name":"f"}}]"#),
        (
            "tool_choice",
            r#""tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"required""#,
        ),
        (
            "parallel_tool_calls",
            r#""tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"parallel_tool_calls":false"#,
        ),
        ("response_format: json_object", r#""response_format":{"type":"json_object"}"#),
        (
            "response_format: json_schema",
            r#""response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object","properties":{},"required":[],"additionalProperties":false}}}"#,
        ),
        ("reasoning_effort", r#""reasoning_effort":"high""#),
        ("thinking", r#""thinking":{"type":"enabled","budget_tokens":2000}"#),
        ("verbosity", r#""verbosity":"low""#),
        ("modalities", r#""modalities":["text","audio"],"audio":{"voice":"a","format":"wav"}"#),
        ("prediction", r#""prediction":{"type":"content","content":"a"}"#),
        ("web_search_options", r#""web_search_options":{}"#),
        ("user", r#""user":"a""#),
        ("metadata", r#""metadata":{"a":"b"}"#),
        ("service_tier", r#""service_tier":"flex""#),
        ("store", r#""store":true"#),
        ("prompt_cache_key", r#""prompt_cache_key":"a""#),
        (
            "pictures",
            r#""messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]"#,
        ),
        (
            "pictures by URL",
            r#""messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]"#,
        ),
        (
            "sound",
            r#""messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}]"#,
        ),
        (
            "PDF files",
            r#""messages":[{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AAAA"}}]}]"#,
        ),
        (
            "calls and results",
            r#""messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"b"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]"#,
        ),
        ("messages[].name", r#""messages":[{"role":"user","name":"b","content":"a"}]"#),
    ],
};
