#!/bin/sh
# An S3 server (rclone) with the buckets of this project, as folders of $S3_DATA.
#
# The files s3_access_key_id and s3_secret_access_key in $S3_SECRETS have its keys. It creates $S3_READY when it is ready.
set -eu
umask 077

address=${S3_ADDRESS:-0.0.0.0:9000}
data=${S3_DATA:-/data}
secrets=${S3_SECRETS:-/run/secrets}
ready=${S3_READY:-/tmp/ready}
buckets="agggen-data agggen-models agggen-mlflow"

id=$(cat "$secrets/s3_access_key_id")
secret=$(cat "$secrets/s3_secret_access_key")
rm -f "$ready"
for bucket in $buckets; do mkdir -p "$data/$bucket"; done
# Temporary files of uploads that a killed server did not finish.
find "$data" -type f -name '.rclone_temp_*' -exec rm -f {} +

RCLONE_AUTH_KEY="\"$id,$secret\"" rclone --config "" serve s3 --addr "$address" --no-cleanup --vfs-cache-mode off "$data" &
server=$!
trap 'kill -TERM $server' INT TERM

# The server cannot list a bucket's multipart uploads before its first upload.
export RCLONE_S3_PROVIDER=Rclone RCLONE_S3_ENDPOINT="http://127.0.0.1:${address##*:}"
export RCLONE_S3_ACCESS_KEY_ID="$id" RCLONE_S3_SECRET_ACCESS_KEY="$secret"
attempts=0
for bucket in $buckets; do
  until echo ready | rclone --config "" --s3-upload-cutoff 0 --retries 1 --low-level-retries 1 \
    rcat ":s3:$bucket/.ready" 2>"$ready.log"; do
    attempts=$((attempts + 1))
    if [ $attempts -ge 60 ] || ! kill -0 $server 2>/dev/null; then
      cat "$ready.log" >&2
      echo "the S3 server cannot store an object in $bucket" >&2
      kill -TERM $server 2>/dev/null || true
      exit 1
    fi
    sleep 1
  done
  rclone --config "" deletefile ":s3:$bucket/.ready"
done
unset RCLONE_S3_ACCESS_KEY_ID RCLONE_S3_SECRET_ACCESS_KEY id secret
touch "$ready"
echo "the S3 server answers at $address"

status=0
wait $server || status=$?
if kill -0 $server 2>/dev/null; then # a signal interrupted `wait` while the server is still stopping
  status=0
  wait $server || status=$?
fi
exit $status
