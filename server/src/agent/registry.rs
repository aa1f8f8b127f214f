//! The agents that this server knows by name.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{AgentSpec, Owner, demo};

/// The agent that is always there.
pub const DEMO: &str = "demo";

/// Names and their backends.
#[derive(Clone, Debug)]
pub struct Agents {
    by_name: BTreeMap<String, AgentSpec>,
    default: String,
    owner: Option<Owner>,
}

impl Agents {
    /// Makes a registry of `configured` agents and the built-in demo.
    ///
    /// # Errors
    /// The name `default` itself, if no such agent is there.
    pub fn new(
        mut configured: BTreeMap<String, AgentSpec>,
        default: String,
    ) -> Result<Self, String> {
        configured.entry(DEMO.to_owned()).or_insert_with(|| AgentSpec::Demo(demo::abilities()));
        if !configured.contains_key(&default) {
            return Err(default);
        }
        Ok(Self { by_name: configured, default, owner: None })
    }

    /// Says whose the processes of these agents are.
    #[must_use]
    pub fn owned_by(self, owner: Owner) -> Self {
        Self { owner: Some(owner), ..self }
    }

    /// Returns whose the processes of these agents are.
    pub fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// Returns the name of the agent that new tasks get.
    pub fn default_name(&self) -> &str {
        &self.default
    }

    /// Tells whether there is such an agent.
    pub fn knows(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns how long the slowest of them may take to stop when it is asked to.
    pub fn longest_patience(&self) -> Duration {
        self.by_name.values().map(AgentSpec::cancel_patience).max().unwrap_or_default()
    }

    /// Returns how an agent is started.
    pub fn get(&self, name: &str) -> Option<&AgentSpec> {
        self.by_name.get(name)
    }
}
