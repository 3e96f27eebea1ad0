//! A call that was stored without its result.

use agentstore::{
    AgentId, Block, Commit, Expect, Json, Message, NewEntry, Role, RunChange, RunId, RunStatus, TenantId,
};

use crate::{FakeServer, MODELS, Program, store};

pub(crate) const INTERRUPTED: &str = r#"Stopped { code: "interrupted", detail: None }"#;

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
        let program = Program::start_with_model(folder.path(), &server, model);
        let output = &program.output_since_command;
        assert!(output.contains("[add({\"a\":2,\"b\":2.5}): 4.5]\nThe sum is 4.5.\n"), "{model:?}: {output}");
        assert!(program.end().success());
        server.expect_no_violations();
        assert_eq!(store::outcomes(folder.path()).await, [INTERRUPTED, "NaturalEnd"]);
    }
}
