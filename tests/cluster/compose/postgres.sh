#!/bin/bash
# What the official image's entrypoint does for compose.yaml: the first start makes the database, on a socket alone.
set -euo pipefail
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  # initdb asks for its user's name, and 10001 has none.
  NSS_WRAPPER_PASSWD=$(mktemp)
  NSS_WRAPPER_GROUP=$(mktemp)
  export NSS_WRAPPER_PASSWD NSS_WRAPPER_GROUP
  echo "postgres:x:$(id -u):$(id -g)::$PGDATA:/bin/false" >"$NSS_WRAPPER_PASSWD"
  echo "postgres:x:$(id -g):" >"$NSS_WRAPPER_GROUP"
  # shellcheck disable=SC2086
  LD_PRELOAD=$(echo /usr/lib/*/libnss_wrapper.so) \
    initdb --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" $POSTGRES_INITDB_ARGS
  rm "$NSS_WRAPPER_PASSWD" "$NSS_WRAPPER_GROUP"
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  PGPASSWORD=$(<"$POSTGRES_PASSWORD_FILE")
  export PGPASSWORD PGUSER=$POSTGRES_USER
  pg_ctl -o "-c listen_addresses=''" -w start
  psql -v ON_ERROR_STOP=1 --no-password --no-psqlrc --dbname=postgres --command="CREATE DATABASE \"$POSTGRES_DB\""
  for file in /docker-entrypoint-initdb.d/*.sql; do
    psql -v ON_ERROR_STOP=1 --no-password --no-psqlrc --dbname="$POSTGRES_DB" --file="$file"
  done
  pg_ctl -m fast -w stop
  unset PGPASSWORD PGUSER
fi
exec postgres -c "listen_addresses=*"
