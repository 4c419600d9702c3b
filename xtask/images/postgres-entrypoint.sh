#!/bin/sh
# same outward protocol as the official image: POSTGRES_USER/PASSWORD/DB, POSTGRES_INITDB_ARGS, POSTGRES_HOST_AUTH_METHOD,
# /docker-entrypoint-initdb.d/*.{sh,sql,sql.gz}, a temporary socket-only server during init, then exec.
set -e
case $1 in -*) set -- postgres "$@";; esac
if [ "$1" = postgres ]; then
  : "${PGDATA:=/var/lib/postgresql/data}"; export PGDATA
  if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA" /var/run/postgresql; find "$PGDATA" /var/run/postgresql ! -user postgres -exec chown postgres:postgres {} +; [ "$(stat -c %a "$PGDATA")" = 700 ] || chmod 700 "$PGDATA"; chmod 3777 /var/run/postgresql
    exec /usr/bin/setpriv --reuid=70 --regid=70 --clear-groups "$0" "$@"
  fi
  if [ ! -s "$PGDATA/PG_VERSION" ]; then
    if [ -z "$POSTGRES_PASSWORD" ] && [ "$POSTGRES_HOST_AUTH_METHOD" != trust ]; then
      echo 'Error: Database is uninitialized and superuser password is not specified.' >&2
      echo '       You must specify POSTGRES_PASSWORD to a non-empty value for the superuser.' >&2; exit 1
    fi
    u=${POSTGRES_USER:-postgres}; db=${POSTGRES_DB:-$u}; pw=$(mktemp); printf '%s\n' "${POSTGRES_PASSWORD:-x}" >"$pw"
    eval 'initdb --username="$u" --pwfile="$pw" '"$POSTGRES_INITDB_ARGS"; rm -f "$pw"
    echo "host all all all ${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}" >>"$PGDATA/pg_hba.conf"
    pg_ctl -D "$PGDATA" -o "-c listen_addresses='' -p 5432 -k /var/run/postgresql" -w start
    [ "$db" = postgres ] || psql -v ON_ERROR_STOP=1 -U "$u" --no-password -d postgres -h /var/run/postgresql -c "CREATE DATABASE \"$db\""
    for f in /docker-entrypoint-initdb.d/*; do case $f in
      *.sh) . "$f" ;; *.sql) psql -v ON_ERROR_STOP=1 -U "$u" -d "$db" -h /var/run/postgresql -f "$f" ;;
      *.sql.gz) gunzip -c "$f" | psql -v ON_ERROR_STOP=1 -U "$u" -d "$db" -h /var/run/postgresql ;; esac; done
    pg_ctl -D "$PGDATA" -m fast -w stop
    echo; echo 'PostgreSQL init process complete; ready for start up.'; echo
  fi
  shift; set -- postgres -c listen_addresses='*' -k /var/run/postgresql "$@"
fi
exec "$@"
