//! The parts of Responses, as requests have them.

use crate::front::probes::Probes;

pub(super) const PROBES: Probes = Probes {
    needed: &[r#""model":"m""#, r#""input":"a""#],
    parts: &[
        ("instructions", r#""instructions":"a""#),
        ("temperature", r#""temperature":0.5"#),
        ("top_p", r#""top_p":0.5"#),
        ("top_logprobs", r#""top_logprobs":2,"include":["message.output_text.logprobs"]"#),
        ("max_output_tokens", r#""max_output_tokens":9000"#),
        ("max_tool_calls", r#""max_tool_calls":2"#),
        ("tools: function", r#""tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]"#),
        ("tools: custom", r#""tools":[{"type":"custom","name":"f"}]"#),
        (
            "tools: namespace",
            r#""tools":[{"type":"namespace","name":"n","description":"","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]}]"#,
        ),
        ("tools: web_search", r#""tools":[{"type":"web_search"}]"#),
        ("tools: file_search", r#""tools":[{"type":"file_search","vector_store_ids":["a"]}]"#),
        ("tools: code_interpreter", r#""tools":[{"type":"code_interpreter","container":{"type":"auto"}}]"#),
        (
            "tool_choice",
            r#""tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"tool_choice":"required""#,
        ),
        (
            "parallel_tool_calls",
            r#""tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"parallel_tool_calls":false"#,
        ),
        ("text.format: json_object", r#""text":{"format":{"type":"json_object"}}"#),
        (
            "text.format: json_schema",
            r#""text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object","properties":{},"required":[],"additionalProperties":false}}}"#,
        ),
        ("text.verbosity", r#""text":{"verbosity":"low"}"#),
        ("reasoning.effort", r#""reasoning":{"effort":"high"}"#),
        ("reasoning.summary", r#""reasoning":{"summary":"auto"}"#),
        ("truncation", r#""truncation":"auto""#),
        ("service_tier", r#""service_tier":"flex""#),
        ("metadata", r#""metadata":{"a":"b"}"#),
        ("user", r#""user":"a""#),
        ("prompt_cache_key", r#""prompt_cache_key":"a""#),
        ("context_management", r#""context_management":[{"type":"compaction","compact_threshold":1000}]"#),
        (
            "pictures",
            r#""input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]"#,
        ),
        (
            "pictures by URL",
            r#""input":[{"role":"user","content":[{"type":"input_image","image_url":"https://example.com/a.png"}]}]"#,
        ),
        (
            "PDF files",
            r#""input":[{"role":"user","content":[{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,AAAA"}]}]"#,
        ),
        (
            "calls and results",
            r#""input":[{"role":"user","content":"a"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"b"}],"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]"#,
        ),
        (
            "reasoning of earlier turns",
            r#""input":[{"role":"user","content":"a"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2ln"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]"#,
        ),
    ],
};
