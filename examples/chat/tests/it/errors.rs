//! Errors of the APIs.

use crate::{FakeServer, MODELS, Mode, Program, fake::KEY, store};

/// The question and what was received of the answer stay, and the run has the error. The next run continues the answer.
#[tokio::test]
async fn after_an_error_the_answer_continues_where_it_broke_off() {
    for model in MODELS {
        let (folder, server) = (tempfile::tempdir().unwrap(), FakeServer::start());
        server.set_next_modes([Mode::Refuse, Mode::Overload, Mode::Break]);
        let mut program = Program::start_with_model(folder.path(), &server, model);
        let refusal_output = program.ask("hello you there");
        assert!(
            refusal_output.contains("error: ") && refusal_output.contains("429 Too Many Requests: slow down"),
            "{refusal_output}"
        );
        let overload_output = program.ask("/retry");
        assert!(
            overload_output.contains("error: ") && overload_output.contains("overloaded for now"),
            "{overload_output}"
        );
        assert!(program.ask("/retry").contains("the answer broke off"), "{model:?}: {}", program.output_since_command);
        program.ask("/retry");
        assert!(program.end().success());
        server.expect_no_violations();
        let messages = store::messages(folder.path()).await;
        let parts: Vec<_> = messages.iter().filter_map(|line| line.strip_prefix("assistant: ")).collect();
        assert_eq!(
            (messages[0].as_str(), parts.concat().as_str()),
            ("user: hello you there", "You said: hello you there")
        );
        assert_eq!(messages.len(), 2 * parts.len(), "{model:?}: {messages:?}");
        assert!(parts.len() > 1, "{model:?}: {messages:?}");
        let outcomes = store::outcomes(folder.path()).await;
        let texts = ["429 Too Many Requests: slow down", "overloaded for now", "broke off", "NaturalEnd"];
        assert_eq!(outcomes.len(), texts.len());
        for (outcome, text) in outcomes.iter().zip(texts) {
            assert!(outcome.contains(text), "{model:?}: {outcome}");
        }
        store::expect_absent(folder.path(), KEY);
    }
}

/// Servers repeat a wrong key in their refusals. The chat replaces it in what it prints and stores.
#[tokio::test]
async fn a_key_reaches_neither_the_terminal_nor_the_store() {
    const WRONG_KEY: &str = "wrong-key-3141592653";
    for (provider, model) in MODELS {
        let (folder, server) = (tempfile::tempdir().unwrap(), FakeServer::start());
        let arguments = ["--provider", provider, "--model", model];
        let mut program = Program::start_with_key(folder.path(), &server, WRONG_KEY, &arguments);
        let refusal_output = program.ask("hello");
        assert!(refusal_output.contains("401 Unauthorized: incorrect key: [key]"), "{refusal_output}");
        assert!(!refusal_output.contains(WRONG_KEY));
        assert!(program.end().success());
        store::expect_absent(folder.path(), WRONG_KEY);
        let outcomes = store::outcomes(folder.path()).await;
        assert!(outcomes[0].contains("[key]"), "{outcomes:?}");

        let mut program = Program::start_with_key(folder.path(), &server, "", &[]);
        assert!(program.ask("/retry").contains("_API_KEY to your key"), "{}", program.output_since_command);
        assert!(server.requests().is_empty());
    }
}

/// A server answers with a redirect. The chat does not follow it, because the request contains the key.
#[tokio::test]
async fn a_request_is_not_sent_to_another_server() {
    let (folder, server) = (tempfile::tempdir().unwrap(), FakeServer::start());
    server.set_next_modes([Mode::Redirect]);
    let mut program = Program::start_with_model(folder.path(), &server, MODELS[0]);
    assert!(program.ask("hello").contains("307 Temporary Redirect"), "{}", program.output_since_command);
    assert_eq!(server.requests().len(), 1);
    assert_eq!(program.ask("/retry"), "You said: hello\n");
}
