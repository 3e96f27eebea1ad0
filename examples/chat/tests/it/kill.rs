//! Kills the program, and starts it again.

use agentstore::{
    AgentId, Block, Commit, Expect, Json, Message, NewEntry, Role, RunChange, RunId, RunStatus, TenantId,
};

use crate::{FakeServer, MODELS, Mode, Program, store};

const INTERRUPTED: &str = r#"Stopped { code: "interrupted", detail: None }"#;

/// Before the kill, the question, the call and its result were committed, and the answer was not.
#[tokio::test]
async fn a_chat_that_was_killed_during_an_answer_can_continue() {
    for model in MODELS {
        let (folder, server) = (tempfile::tempdir().unwrap(), FakeServer::start());
        server.set_next_modes([Mode::Normal, Mode::Hang]);
        let mut program = Program::start_with_model(folder.path(), &server, model);
        program.send("add 17 25");
        program.wait_for("The sum");
        program.kill();
        let committed_messages = ["user: add 17 25", "assistant: add{\"a\":17,\"b\":25}", "tool: Text(\"42\")"];
        assert_eq!(store::messages(folder.path()).await, committed_messages, "{model:?}");
        assert_eq!(store::outcomes(folder.path()).await, ["running"]);

        let mut program = Program::start(folder.path(), &server, &[]);
        assert!(program.output_since_command.contains("/retry"), "{}", program.output_since_command);
        assert_eq!(program.ask("/retry"), "The sum is 42.\n", "{model:?}");
        assert_eq!(program.ask("hello"), "You said: hello\n", "{model:?}");
        assert!(program.end().success());
        // The request to the model was repeated unchanged, and the tool was not run again.
        let requests = server.requests();
        assert_eq!(requests.len(), 4);
        assert_eq!(requests[1], requests[2]);
        server.expect_no_violations();
        assert_eq!(store::outcomes(folder.path()).await, [INTERRUPTED, "NaturalEnd", "NaturalEnd"]);
    }
}

/// If the program was killed during the first answer, the user may ask something else.
#[tokio::test]
async fn a_new_question_may_follow_an_interrupted_answer() {
    for model in MODELS {
        let (folder, server) = (tempfile::tempdir().unwrap(), FakeServer::start());
        server.set_next_modes([Mode::Hang]);
        let mut program = Program::start_with_model(folder.path(), &server, model);
        program.send("one two three four five");
        program.wait_for("You said");
        program.kill();
        let mut program = Program::start(folder.path(), &server, &[]);
        assert_eq!(program.ask("hello"), "You said: hello\n", "{model:?}");
        assert!(program.end().success());
        server.expect_no_violations();
        let expected = ["user: one two three four five", "user: hello", "assistant: You said: hello"];
        assert_eq!(store::messages(folder.path()).await, expected, "{model:?}");
    }
}

/// The program was killed after a call was stored, and before its result was.
#[tokio::test]
async fn a_call_without_a_result_is_run_again() {
    for model in MODELS {
        let (folder, server) = (tempfile::tempdir().unwrap(), FakeServer::start());
        let stores = store::open(folder.path()).await;
        let run = RunChange::new(RunId::new("r").unwrap(), RunStatus::Running);
        let call = Block::tool_use("c-1", "add", Json::parse(r#"{"a":2,"b":2.5}"#).unwrap());
        let commit = Commit::new(store::thread())
            .expecting(Expect::Absent)
            .entry(NewEntry::new(Message::user("add 2 2.5")))
            .entry(NewEntry::new(Message::new(Role::Assistant, vec![call])))
            .with_run(run.with_agent(AgentId::new("chat").unwrap()));
        let _receipt = stores.commits(&TenantId::default_tenant()).unwrap().commit(commit).await.unwrap();
        stores.close().await.unwrap();
        let mut program = Program::start_with_model(folder.path(), &server, model);
        assert_eq!(program.ask("/retry"), "[add({\"a\":2,\"b\":2.5}): 4.5]\nThe sum is 4.5.\n", "{model:?}");
        assert!(program.end().success());
        server.expect_no_violations();
        assert_eq!(store::outcomes(folder.path()).await, [INTERRUPTED, "NaturalEnd"]);
    }
}
