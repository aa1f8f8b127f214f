//! What an agent can be asked for beside an answer. Looked at before it gets a prompt, so that
//! nothing reaches an agent that would run it in another way than somebody wanted.

use usher_shared::vocabulary::TurnReason;

use crate::domain::message::RunOptions;

/// What an agent has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// The models that it can be asked for by name. Without a name it uses its own choice.
    pub models: Vec<String>,
    /// Whether it has a plan mode.
    pub plan_mode: bool,
}

/// What an agent does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The model of this name; these are the ones that it has.
    Model(String, Vec<String>),
    /// A plan mode.
    PlanMode,
}

impl Abilities {
    /// Returns what is missing to run a prompt like this.
    pub fn lack(&self, run: &RunOptions) -> Option<Lack> {
        match &run.model {
            Some(model) if !self.models.contains(model) => {
                Some(Lack::Model(model.clone(), self.models.clone()))
            }
            _ => (run.plan_mode && !self.plan_mode).then_some(Lack::PlanMode),
        }
    }
}

impl Lack {
    /// Returns the reason of a turn that fails for it.
    pub const fn reason(&self) -> TurnReason {
        match self {
            Self::Model(..) => TurnReason::ModelUnavailable,
            Self::PlanMode => TurnReason::PlanModeUnavailable,
        }
    }

    /// Says it of the agent of this name.
    pub fn text(&self, agent: &str) -> String {
        match self {
            Self::Model(model, models) if models.is_empty() => {
                format!("{agent} has no model {model}; it takes none by name")
            }
            Self::Model(model, models) => {
                format!("{agent} has no model {model}; it has {}", models.join(", "))
            }
            Self::PlanMode => format!("{agent} has no plan mode"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(model: Option<&str>, plan_mode: bool) -> RunOptions {
        RunOptions { model: model.map(str::to_owned), plan_mode }
    }

    #[test]
    fn what_is_asked_for_and_not_there_is_named_the_model_first() {
        let models = vec!["a".to_owned(), "b".to_owned()];
        let able = Abilities { models: models.clone(), plan_mode: true };
        for asked in [run(None, false), run(Some("b"), true), run(None, true)] {
            assert_eq!(able.lack(&asked), None, "{asked:?}");
        }
        let lack = able.lack(&run(Some("B"), false)).unwrap();
        assert_eq!(lack, Lack::Model("B".to_owned(), models));
        assert_eq!(lack.text("x"), "x has no model B; it has a, b");
        let plain = Abilities::default();
        assert_eq!(plain.lack(&run(None, false)), None);
        assert_eq!(plain.lack(&run(None, true)), Some(Lack::PlanMode));
        let lack = plain.lack(&run(Some("a"), true)).unwrap();
        assert_eq!(lack.reason(), TurnReason::ModelUnavailable);
        assert_eq!(lack.text("x"), "x has no model a; it takes none by name");
    }
}
