use super::*;

#[test]
fn paths_name_the_model_and_cannot_leave_their_place() {
    let check = |model, stream, expected| assert_eq!(model_path(model, stream), expected);
    check(
        "gemini-2.5-pro",
        false,
        "/models/gemini-2.5-pro:generateContent",
    );
    check(
        "gemini-2.5-pro",
        true,
        "/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
    );
    check(
        "models/gemini-2.5-pro",
        false,
        "/models/gemini-2.5-pro:generateContent",
    );
    check(
        "a/b?c#d%e f:g",
        false,
        "/models/a%2Fb%3Fc%23d%25e%20f%3Ag:generateContent",
    );
    check("é~_.-", false, "/models/%C3%A9~_.-:generateContent");
    check(
        "../../v1/x",
        false,
        "/models/..%2F..%2Fv1%2Fx:generateContent",
    );
    check("..", false, "/models/__:generateContent");
    check("models/.", false, "/models/_:generateContent");
    check("", false, "/models/_:generateContent");
    check("a\r\nb", false, "/models/a%0D%0Ab:generateContent");
}
