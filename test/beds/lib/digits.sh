# shellcheck shell=bash
# Read by the tests beside this folder.

digits() { # a file like that of the training example's digits, with patterns that are easy to tell apart
  awk 'BEGIN { srand(7); for (i = 0; i < 900; i++) { d = int(rand() * 10); line = ""
    for (p = 0; p < 64; p++) line = line int((p * (d + 3) % 11 < 4 ? 11 : 1) + rand() * 4) ","; print line d } }'
}

learnt() { # learnt FILE: says the training example's output there that the network has learnt?
  awk '/test accuracy/ { for (i = 1; i < NF; i++) if ($i == "accuracy" && $(i + 1) > 95) good = 1 } END { exit !good }' "$1"
}
