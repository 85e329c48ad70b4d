"""Write the files with which a lab runs a study on its server.

The templates are in `templates`; each is filled with the facts of the study.
"""

import hashlib
import shlex
import sys
from collections import Counter
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from sqlalchemy import func, make_url, select

from eyechart.core.errors import UsageError
from eyechart.core.storage.files import atomic_file
from eyechart_experiment.deploy.deploy_settings import PLAIN_PATH, DeploySettings
from eyechart_experiment.design.budget import participant_seconds
from eyechart_experiment.recruiters import RECRUITERS, platform_fees, platform_warnings
from eyechart_experiment.storage.database_tables import StimulusRow
from eyechart_experiment.storage.experiment_folder import OpenStudy

TEMPLATES = {
    "eyechart@.service.j2": "eyechart-{name}@.service",
    "backup.service.j2": "eyechart-{name}-backup.service",
    "backup.timer.j2": "eyechart-{name}-backup.timer",
    "nginx.conf.j2": "nginx-{name}.conf",
    "postgresql.sql.j2": "postgresql-{name}.sql",
    "logrotate.j2": "logrotate-{name}",
    "restart.sh.j2": "restart-{name}.sh",
    "GO-LIVE.md.j2": "GO-LIVE.md",
}


def write_deployment(study: OpenStudy, settings: DeploySettings, out: Path) -> list[Path]:
    """Write all files of a deployment into a folder, and return their paths."""
    settings.check()
    facts = deployment_facts(study, settings)
    # Strict: a misspelled fact must raise, not leave a gap in a web server's configuration.
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    templates = files("eyechart_experiment.deploy") / "templates"
    try:
        out.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror}.") from None
    written = []
    for source, target in TEMPLATES.items():
        template = environment.from_string((templates / source).read_text(encoding="utf-8"))
        path = out / target.format(name=study.config.name)
        with atomic_file(path) as temporary:
            temporary.write_text(template.render(facts), encoding="utf-8")
            temporary.chmod(0o755 if path.suffix == ".sh" else 0o644)
        written.append(path)
    return written


def deployment_facts(study: OpenStudy, settings: DeploySettings) -> dict[str, object]:
    """Return what the templates need to know about a study and its server."""
    config, url = study.config, make_url(study.folder.database_url)
    is_postgresql = url.get_backend_name() != "sqlite"
    with study.database.reading() as db:
        stimuli = db.execute(
            select(StimulusRow.role, func.count(), func.sum(StimulusRow.capacity))
            .where(StimulusRow.study_id == study.id)
            .group_by(StimulusRow.role)
        ).all()
    by_role = Counter({role: count for role, count, _ in stimuli})
    address = f"https://{settings.domain}"
    # Beside the interpreter, where pip installs programs: a service does not see the user's PATH.
    program = settings.command or Path(sys.executable).with_name("eyechart")
    return {
        "config": config,
        "name": config.name,
        "domain": settings.domain,
        "address": address,
        "user": settings.user,
        "folder": _plain(settings.folder or study.folder.path.resolve()),
        "program": _plain(program),
        "backups": _plain(settings.backups),
        "certificates": _plain(
            settings.certificates or Path("/etc/letsencrypt/live") / settings.domain
        ),
        # A second process on SQLite is rejected, see server/serve.py.
        "ports": [settings.port, settings.port + 1] if is_postgresql else [settings.port],
        "is_postgresql": is_postgresql,
        "database": url.database if is_postgresql else "eyechart",
        "sites": [
            (site.title, site.address_help(f"{address}/s/{config.name}"))
            for site in RECRUITERS.values()
        ],
        "warnings": platform_warnings(config.recruiter_settings),
        "fees": list(platform_fees().values()),
        "by_role": by_role,
        "wanted": sum(total or 0 for role, _, total in stimuli if role == "main"),
        "minutes": participant_seconds(config) / 60,
        "consent_digest": hashlib.sha256(config.consent.encode()).hexdigest(),
        "quoted_folder": shlex.quote(str(settings.folder or study.folder.path.resolve())),
    }


def _plain(path: Path) -> str:
    text = str(path)
    if not PLAIN_PATH.fullmatch(text):
        raise UsageError(
            f"Paths on the server must be absolute and without spaces or special characters, got"
            f" {text}: pass another one."
        )
    return text
