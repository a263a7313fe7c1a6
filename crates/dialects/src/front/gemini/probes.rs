//! The parts of `generateContent`, as requests have them.

use crate::front::probes::Probes;

pub(super) const PROBES: Probes = Probes {
    needed: &[r#""contents":[{"parts":[{"text":"a"}]}]"#],
    parts: &[
        ("systemInstruction", r#""systemInstruction":{"parts":[{"text":"a"}]}"#),
        ("temperature", r#""generationConfig":{"temperature":0.5}"#),
        ("topP", r#""generationConfig":{"topP":0.5}"#),
        ("topK", r#""generationConfig":{"topK":5}"#),
        ("candidateCount", r#""generationConfig":{"candidateCount":2}"#),
        ("maxOutputTokens", r#""generationConfig":{"maxOutputTokens":9000}"#),
        ("stopSequences", r#""generationConfig":{"stopSequences":["a"]}"#),
        ("seed", r#""generationConfig":{"seed":1}"#),
        ("presencePenalty", r#""generationConfig":{"presencePenalty":0.5}"#),
        ("frequencyPenalty", r#""generationConfig":{"frequencyPenalty":0.5}"#),
        ("responseLogprobs", r#""generationConfig":{"responseLogprobs":true,"logprobs":2}"#),
        ("responseMimeType", r#""generationConfig":{"responseMimeType":"application/json"}"#),
        (
            "responseJsonSchema",
            r#""generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{},"required":[],"additionalProperties":false}}"#,
        ),
        ("thinkingConfig", r#""generationConfig":{"thinkingConfig":{"thinkingLevel":"HIGH","includeThoughts":true}}"#),
        ("mediaResolution", r#""generationConfig":{"mediaResolution":"MEDIA_RESOLUTION_LOW"}"#),
        ("functionDeclarations", r#""tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT"}}]}]"#),
        (
            "toolConfig",
            r#""tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT"}}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}"#,
        ),
        ("googleSearch", r#""tools":[{"googleSearch":{}}]"#),
        ("codeExecution", r#""tools":[{"codeExecution":{}}]"#),
        ("urlContext", r#""tools":[{"urlContext":{}}]"#),
        ("safetySettings", r#""safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}]"#),
        ("cachedContent", r#""cachedContent":"cachedContents/a""#),
        ("labels", r#""labels":{"a":"b"}"#),
        ("serviceTier", r#""serviceTier":"flex""#),
        ("pictures", r#""contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}]"#),
        ("sound", r#""contents":[{"parts":[{"inlineData":{"mimeType":"audio/wav","data":"AAAA"}}]}]"#),
        ("PDF files", r#""contents":[{"parts":[{"inlineData":{"mimeType":"application/pdf","data":"AAAA"}}]}]"#),
        (
            "files by URL",
            r#""contents":[{"parts":[{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/a.png"}}]}]"#,
        ),
        (
            "calls and results",
            r#""contents":[{"parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"c","name":"f","args":{}}}]},{"parts":[{"functionResponse":{"id":"c","name":"f","response":{"output":"b"}}}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT"}}]}]"#,
        ),
    ],
};
