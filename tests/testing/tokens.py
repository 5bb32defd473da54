"""Made-up tokens in every published form, and what of them is secret."""

from __future__ import annotations

import base64

#: Letters and digits in no order; hex, letters and capitals of the same.
ANY = "q7Zk2VbN9xLw4RtY8mHc3Jp6Ds1Fg5KaQe0UiOo" * 5


HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b" * 5


LETTERS = "qWertYuioPasdFghjKlzxcVbnmQazwSxedCrfvTg" * 5


CAPITALS = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8" * 5


#: The forms of issue 16 and others of their kind, split so that no scanner takes them for real.
TOKENS = {
    "Stripe": "sk_" + "live_" + ANY[:24],
    "Stripe, restricted": "rk_" + "live_" + ANY[:24],
    "SendGrid": "SG" + f".{ANY[:22]}.{ANY[30:73]}",
    "Vault": "hvs" + f".{ANY[:95]}",
    "Docker": "dckr" + f"_pat_{ANY[:27]}",
    "DigitalOcean": "dop" + f"_v1_{HEX[:64]}",
    "Groq": "gsk" + f"_{ANY[:52]}",
    "Google client secret": "GOC" + f"SPX-{ANY[:28]}",
    "Google access token": "ya29" + f".a0{ANY[:120]}",
    "Slack app": "xapp" + f"-1-A0123456789-1234567890123-{HEX[:64]}",
    "Slack webhook": "https://hooks.slack.com" + f"/services/T01234567/B01234567/{ANY[:24]}",
    "Discord webhook": "https://discord.com" + f"/api/webhooks/123456789012345678/{ANY[:68]}",
    "xAI": "xai" + f"-{ANY[:80]}",
    "Shopify": "shpat" + f"_{HEX[:32]}",
    "Databricks": "dapi" + HEX[:32],
    "GitLab runner": "glrt" + f"-{ANY[:20]}",
    "age": "AGE-SECRET" + f"-KEY-1{CAPITALS[:58]}",
    "Telegram": "1234567890" + f":AA{ANY[:33]}",
    "Hugging Face": "hf" + f"_{LETTERS[:34]}",
    "Twilio": "SK" + HEX[:32],
    "Linear": "lin" + f"_api_{ANY[:40]}",
    "New Relic": "NRAK" + f"-{CAPITALS[:27]}",
    "Grafana": "glsa" + f"_{ANY[:32]}_{HEX[:8]}",
    "Azure": f"https://a.blob.example.net/c?sv=2024-01-01&sig={ANY[:43]}%3D",
    "AWS address": f"https://b.s3.example.com/k?X-Amz-Signature={HEX[:64]}",
    "token alone in an address": f"https://{ANY[:40]}@github.com/acme/shop",
    "Sentry": f"https://{HEX[:32]}@o1.ingest.sentry.io/1",
    "password without a user": f"redis://:{ANY[:20]}@cache:6379/0",
    "at-sign in a password": f"postgres://ada:pa@{ANY[:20]}@db/shop",
    "Cloudflare": "cfut" + f"_{ANY[:48]}",
    "Cloudflare, account": "cfat" + f"_{ANY[:48]}",
    "Cloudflare, global": "cfk" + f"_{ANY[:48]}",
    "Supabase": "sbp" + f"_{HEX[:40]}",
    "Supabase, secret": "sb" + f"_secret_{ANY[:22]}_{ANY[30:38]}",
    "Tailscale": "tskey" + f"-auth-k{ANY[:16]}-{ANY[:32]}",
    "Tailscale, API": "tskey" + f"-api-{ANY[:12]}-{ANY[:20]}",
    "Tavily": "tvly" + f"-dev-{ANY[:32]}",
    "Azure storage": f"AccountName=shop;AccountKey={ANY[:86]}==;EndpointSuffix=core.windows.net",
    "Together": "tgp" + f"_v1_{ANY[:43]}",
    "NVIDIA": "nvapi" + f"-{ANY[:64]}",
    "Replicate": "r8" + f"_{ANY[:37]}",
    "Cerebras": "csk" + f"-{HEX[:48]}",
    "LangSmith": "lsv2" + f"_pt_{HEX[:32]}_{HEX[:10]}",
    "LangSmith, service": "lsv2" + f"_sk_{HEX[:32]}_{HEX[:10]}",
    "Figma": "figd" + f"_{ANY[:40]}",
    "Sentry, organization": "sntrys" + f"_eyJ{ANY[:90]}_{ANY[:43]}",
    "Vercel": "vcp" + f"_{ANY[:56]}",
    "Vercel, AI gateway": "vck" + f"_{ANY[:56]}",
    "Fireworks": "fw" + f"_{ANY[:24]}",
    "Basic": "Basic " + base64.b64encode(f"ada:{ANY[:20]}".encode()).decode(),
    "Basic in a header": "Authorization: Basic "
    + base64.b64encode(b"\xff" + ANY[:20].encode()).decode(),
}  # fmt: skip


def secret_parts(token: str) -> tuple[str, ...]:
    """Runs of the token that nobody could know otherwise."""
    runs = (ANY, HEX, LETTERS, CAPITALS)
    return tuple(
        token[at : at + 12]
        for at in range(len(token) - 11)
        if any(token[at : at + 12] in run for run in runs)
    )
