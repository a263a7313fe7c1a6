//! The bounds of keys that cannot be carried, by the names under which the operator may drop them.

/// A kind of bound that can be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loosen {
    /// A budget without a period, or with another period than a day or a month, or that several
    /// models share.
    Budgets,
    /// A budget of models that have no price, or that counts more than the price.
    Prices,
    /// Budgets and limits of all callers together: of the whole proxy, of providers, of
    /// deployments.
    ProxyBudget,
    /// What the key's user may use, which is not in the files or cannot be carried.
    Users,
    /// What the key's team may use, which is not in the files.
    Teams,
    /// What a member of the team may use.
    TeamMembers,
    /// What the key's organization may use.
    Organizations,
    /// What the key's project may use.
    Projects,
    /// What the key's agent may use.
    Agents,
    /// What an end user may use: somebody whom the requests of a key name.
    EndUsers,
    /// The paths that the key may call.
    Routes,
    /// Checks of what texts say, and other code that may refuse requests.
    Guardrails,
    /// Tags, which have budgets and choose targets.
    Tags,
    /// Fields that each request must have.
    RequiredFields,
    /// Other names of models, for one key or team.
    Aliases,
    /// Fields of the key that Portcullis does not know.
    UnknownFields,
}

impl Loosen {
    /// All kinds.
    pub const ALL: [Self; 16] = [
        Self::Budgets,
        Self::Prices,
        Self::ProxyBudget,
        Self::Users,
        Self::Teams,
        Self::TeamMembers,
        Self::Organizations,
        Self::Projects,
        Self::Agents,
        Self::EndUsers,
        Self::Routes,
        Self::Guardrails,
        Self::Tags,
        Self::RequiredFields,
        Self::Aliases,
        Self::UnknownFields,
    ];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Budgets => "budgets",
            Self::Prices => "prices",
            Self::ProxyBudget => "proxy-budget",
            Self::Users => "users",
            Self::Teams => "teams",
            Self::TeamMembers => "team-members",
            Self::Organizations => "organizations",
            Self::Projects => "projects",
            Self::Agents => "agents",
            Self::EndUsers => "end-users",
            Self::Routes => "routes",
            Self::Guardrails => "guardrails",
            Self::Tags => "tags",
            Self::RequiredFields => "required-fields",
            Self::Aliases => "aliases",
            Self::UnknownFields => "unknown-fields",
        }
    }

    /// Returns what is dropped.
    pub fn about(self) -> &'static str {
        match self {
            Self::Budgets => {
                "budgets for life, for another time than a day or a month, or of several models together"
            }
            Self::Prices => {
                "budgets of keys that may use a model without a known price, `block_requests_for_models_without_pricing`, and \
                 `cost_margin_config`"
            }
            Self::ProxyBudget => {
                "budgets and limits of all callers together: `max_budget` and `enforce_model_rate_limits` of the file, budgets of \
                 providers and of deployments"
            }
            Self::Users => {
                "what a user may use, also with keys of a team, if /user/list was not saved or cannot be carried"
            }
            Self::Teams => "what a team may use, if /team/list was not saved or cannot be carried",
            Self::TeamMembers => "what each member of a team may use",
            Self::Organizations => "what an organization may use",
            Self::Projects => "what a project may use",
            Self::Agents => "what an agent may use",
            Self::EndUsers => "what an end user may use: somebody whom the requests of a key name",
            Self::Routes => "`allowed_routes` of keys and of the file, and `admin_only_routes`",
            Self::Guardrails => {
                "guardrails, policies, and code of your own that may refuse requests"
            }
            Self::Tags => {
                "tags, which can have budgets (`tag_budget_config`) and choose deployments"
            }
            Self::RequiredFields => "fields that each request must have, such as `enforced_params`",
            Self::Aliases => {
                "other names of models for one key or team, and what puts another model in the place of one: `model_alias_map`, \
                 `completion_model`, `image_generation_model`, `moderation_model`"
            }
            Self::UnknownFields => {
                "fields of keys, teams, users and budgets that Portcullis does not know"
            }
        }
    }

    /// Finds a kind by its name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|loosen| loosen.name() == name)
    }
}

/// A bound that cannot be carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bound {
    /// What drops it; `None` if nothing does.
    pub(super) loosen: Option<Loosen>,
    /// The reason.
    pub(super) why: String,
}

impl Bound {
    pub(super) fn new(loosen: Loosen, why: impl Into<String>) -> Self {
        Self {
            loosen: Some(loosen),
            why: why.into(),
        }
    }

    /// Makes a bound that cannot be read, so that nothing can say what it means.
    pub(super) fn unreadable(field: &str) -> Self {
        Self {
            loosen: None,
            why: format!("`{field}` cannot be read"),
        }
    }
}
