"""Makes keys with LiteLLM's own code: the secrets, one a line, and an answer of /key/list."""

import json
import secrets
import sys
from datetime import datetime, timedelta, timezone

from litellm.proxy._types import LiteLLM_TeamTable, UserAPIKeyAuth, hash_token


def main(number, folder):
    texts = ["sk-" + secrets.token_urlsafe(16) for _ in range(number)]
    with open(f"{folder}/secrets.txt", "w") as file:
        file.write("".join(text + "\n" for text in texts))
    keys = []
    for index, text in enumerate(texts):
        row = {
            "token": hash_token(text),
            "key_name": f"sk-...{text[-4:]}",
            "key_alias": f"key {index}" if index % 3 else None,
            "team_id": f"team-{index % 7}",
            "models": [[], ["m"], ["all-team-models"]][index % 3],
            "rpm_limit": 1000 + index,
            "max_budget": 5.0 if index % 2 else None,
            "budget_duration": "30d" if index % 2 else None,
            "expires": datetime.now(timezone.utc) + timedelta(days=30) if index % 5 else None,
            "created_at": datetime.now(timezone.utc),
            "spend": 0.25 * (index % 4),
        }
        keys.append(UserAPIKeyAuth(**row).model_dump(mode="json"))
    with open(f"{folder}/keys.json", "w") as file:
        json.dump({"keys": keys, "total_count": number, "current_page": 1, "total_pages": 1}, file)
    teams = [LiteLLM_TeamTable(team_id=f"team-{n}", team_alias=f"Team {n}", rpm_limit=100000) for n in range(7)]
    with open(f"{folder}/teams.json", "w") as file:
        json.dump([team.model_dump(mode="json") for team in teams], file)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
