#!/bin/sh
# fetch_description.sh FOLDER: GitHub's description of its API. Its package unpacks to 400 MB, for it
# has each version of GitHub Enterprise: only the one file is taken.
set -eu
package=@octokit/openapi@23.0.2
integrity=sha512-pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg==
file=package/generated/api.github.com.json

packed=$(mktemp -d)
trap 'rm -rf "$packed"' EXIT
npm pack "$package" --silent --pack-destination "$packed" >/dev/null
# shellcheck disable=SC2016 # they are JavaScript's
node -e '
const [path, wanted] = process.argv.slice(1);
const digest = require("crypto").createHash("sha512").update(require("fs").readFileSync(path));
if (`sha512-${digest.digest("base64")}` !== wanted) throw `${path} is not what was pinned`;
' "$packed"/*.tgz "$integrity"
mkdir -p "$1"
tar -xzf "$packed"/*.tgz -C "$1" --strip-components 2 "$file"
