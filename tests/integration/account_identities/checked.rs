//! What `check` says of sources that cannot be used.

use super::*;
use crate::support::folder::Folder;

/// Runs `check` over an account with this text, and returns what it says.
fn check(account: &str, more: &[(&str, &str)]) -> String {
    let catalog = format!("accounts:\n  a: {{ {account} }}\nmodels: {{}}\ncallers: {{}}\n");
    let mut files = vec![("catalog.yaml", catalog.as_str())];
    files.extend(more);
    let ran = Folder::new(&files).run(&["check"]);
    format!("{}{}", ran.stdout, ran.stderr)
}

fn azure(identity: &str) -> String {
    format!("dialect: azure, base_url: \"https://x.openai.azure.com\", identity: {identity}")
}

#[test]
fn what_is_missing_is_named_with_its_line() {
    let bedrock = |aws: &str| format!("dialect: bedrock, region: us-east-1, aws: {{ {aws} }}");
    let vertex = |identity: &str| format!("dialect: vertex, project: p, identity: {identity}");
    for (account, words) in [
        (
            bedrock("from: web_identity"),
            "catalog.yaml:2 accounts.a.aws.role: is missing: the ARN of the role, since the environment variable AWS_ROLE_ARN is not set",
        ),
        (
            bedrock("from: web_identity, role: r, token_file: t"),
            "accounts.a.aws.token_file: must be a full path",
        ),
        (
            bedrock("from: web_identity, role: r, token_file: /t"),
            "accounts.a.aws.role: must be the ARN of a role",
        ),
        (
            bedrock("from: container"),
            "accounts.a.aws.from: needs the environment variable AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        ),
        (
            bedrock("from: instance, access_key_id: { env: X }"),
            "accounts.a.aws.access_key_id: cannot be used together with `from`",
        ),
        (
            bedrock("from: instance, role: \"arn:aws:iam::1:role/x\""),
            "accounts.a.aws.role: only applies with `from: web_identity`",
        ),
        (bedrock("from: process"), "accounts.a.aws.from:"),
        (
            bedrock("from: instance, assume: {}"),
            "accounts.a.aws.assume.role: is missing",
        ),
        (bedrock("{}"), "accounts.a.aws"),
        (
            azure("workload"),
            "accounts.a.identity.tenant: is missing: the id of the tenant, since the environment variable AZURE_TENANT_ID is not set",
        ),
        (
            azure("metadata"),
            "accounts.a.identity.from: is not a source of this dialect",
        ),
        (
            azure("{ from: managed, tenant: x }"),
            "accounts.a.identity.tenant: does not apply to this source",
        ),
        (azure("{}"), "accounts.a.identity.from: is missing"),
        (
            azure("managed, auth: bearer"),
            "accounts.a.auth: says how `key` is sent",
        ),
        (
            azure("managed, key: { env: HOME }"),
            "accounts.a.identity: cannot be used together with `key`",
        ),
        (
            vertex("external_account"),
            "accounts.a.identity.file: is missing: the file of the external account",
        ),
        (
            vertex("{ from: metadata, impersonate: x }"),
            "accounts.a.identity.impersonate: must be the email of a service account",
        ),
        (
            vertex("{ impersonate: a@b.c }"),
            "accounts.a.identity.from: is missing",
        ),
        (
            "dialect: openai, key: { env: HOME }, identity: managed".to_owned(),
            "accounts.a.identity: only applies to the dialects azure and vertex",
        ),
    ] {
        let text = check(&account, &[]);
        assert!(text.contains(words), "{account}\n{words}\n{text}");
    }
}

#[test]
fn a_file_that_runs_a_program_is_refused() {
    let file = json!({"type": "external_account", "audience": "a", "subject_token_type": "t",
        "credential_source": {"executable": {"command": "/bin/x"}}});
    let account = "dialect: vertex, project: p, identity: { from: external_account, file: e.json }";
    let text = check(account, &[("e.json", &file.to_string())]);
    assert!(text.contains("which Portcullis never does"), "{text}");
}

#[test]
fn a_token_file_that_is_missing_is_a_warning() {
    let aws = "from: web_identity, role: \"arn:aws:iam::1:role/x\", token_file: /nowhere/token";
    let account = format!("dialect: bedrock, region: us-east-1, aws: {{ {aws} }}");
    let text = check(&account, &[]);
    let words = "warning: catalog.yaml:2 accounts.a.aws: the file /nowhere/token cannot be read";
    assert!(text.contains(words), "{text}");
    assert!(text.contains(": fine."), "{text}");
}
