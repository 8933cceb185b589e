"""nginx in the foreground."""

from .processes import plain_user

PROGRAM = "/usr/sbin/nginx"


def configuration(directory, http, level="info", processes=1, connections=1024, more=""):
    """The whole configuration; `http` is the content of its block, `more` the text beside it."""
    user = f"user {plain_user()};" if plain_user() else ""
    paths = "\n".join(f"    {name}_temp_path {directory}/{name.split('_')[0]};"
                      for name in ("client_body", "fastcgi", "proxy", "scgi", "uwsgi"))
    return f"""daemon off;
{user}
{more}
worker_processes {processes};
pid {directory}/nginx.pid;
error_log {directory}/nginx-error.log {level};
events {{ worker_connections {connections}; }}
http {{
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
{paths}
{http}
}}
"""


def command(directory, text, name="nginx"):
    """Writes a configuration; returns the command that starts nginx with it."""
    file = directory / f"{name}.conf"
    file.write_text(text)
    return [PROGRAM, "-e", directory / "nginx-error.log", "-c", file]
