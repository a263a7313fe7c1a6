//! The parts of Messages, as requests have them.

use crate::front::probes::Probes;

pub(super) const PROBES: Probes = Probes {
    needed: &[r#""model":"m""#, r#""max_tokens":9000"#, r#""messages":[{"role":"user","content":"a"}]"#],
    parts: &[
        ("system", r#""system":"a""#),
        ("temperature", r#""temperature":0.5"#),
        ("top_p", r#""top_p":0.5"#),
        ("top_k", r#""top_k":5"#),
        ("stop_sequences", r#""stop_sequences":["a"]"#),
        ("tools", r#""tools":[{"name":"f","input_schema":{"type":"object"}}]"#),
        (
            "tools[].strict",
            r#""tools":[{"name":"f","strict":true,"input_schema":{"type":"object","properties":{},"required":[],"additionalProperties":false}}]"#,
        ),
        ("tool_choice", r#""tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}"#),
        (
            "tool_choice.disable_parallel_tool_use",
            r#""tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}"#,
        ),
        ("bash tool", r#""tools":[{"type":"bash_20250124","name":"bash"}]"#),
        ("web search", r#""tools":[{"type":"web_search_20250305","name":"web_search"}]"#),
        ("code execution", r#""tools":[{"type":"code_execution_20250825","name":"code_execution"}]"#),
        ("thinking: enabled", r#""thinking":{"type":"enabled","budget_tokens":2000}"#),
        ("thinking: adaptive", r#""thinking":{"type":"adaptive"}"#),
        ("output_config.effort", r#""output_config":{"effort":"high"}"#),
        (
            "output_config.format",
            r#""output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{},"required":[],"additionalProperties":false}}}"#,
        ),
        ("context_management", r#""context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}"#),
        ("metadata.user_id", r#""metadata":{"user_id":"a"}"#),
        ("service_tier", r#""service_tier":"standard_only""#),
        ("inference_geo", r#""inference_geo":"us""#),
        ("speed", r#""speed":"fast""#),
        ("mcp_servers", r#""mcp_servers":[{"type":"url","name":"a","url":"https://example.com/"}]"#),
        ("container", r#""container":"a""#),
        (
            "pictures",
            r#""messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]"#,
        ),
        (
            "pictures by URL",
            r#""messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]}]"#,
        ),
        (
            "PDF documents",
            r#""messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AAAA"}}]}]"#,
        ),
        (
            "system messages in between",
            r#""messages":[{"role":"user","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"c"}]"#,
        ),
        (
            "calls and results",
            r#""messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"b"}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}]"#,
        ),
        (
            "pictures in results",
            r#""messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}]"#,
        ),
        (
            "thinking of earlier turns",
            r#""messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"b","signature":"c2ln"},{"type":"text","text":"c"}]},{"role":"user","content":"d"}]"#,
        ),
    ],
};
