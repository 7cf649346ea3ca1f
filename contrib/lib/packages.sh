# Installs what is missing, on Debian and its relatives. Sourced after common.sh.

# package=probe: a package is asked for only if its probe fails, so that what came from elsewhere counts too.
#   cmd:NAME a command   pc:NAME a pkg-config module   h:FILE a header   py:CODE a Python statement   dpkg a Debian package
wanted_packages="
  g++=cmd:g++ gcc=cmd:gcc make=cmd:make autoconf=cmd:autoconf automake=cmd:automake libtool=cmd:libtoolize pkg-config=cmd:pkg-config
  ccache=cmd:ccache git=cmd:git xz-utils=cmd:xz procps=cmd:ps
  libpmix-dev=pc:pmix libhwloc-dev=pc:hwloc libcli11-dev=h:CLI/CLI.hpp nlohmann-json3-dev=h:nlohmann/json.hpp
  catch2=h:catch2/catch.hpp libucx-dev=pc:ucx libibverbs-dev=pc:libibverbs
  python3=cmd:python3 python3-dev=py:import,sysconfig,os;assert(os.path.exists(sysconfig.get_path('include')+'/Python.h'))
  python3-venv=py:import,ensurepip,venv cmake=cmd:cmake clang-format=cmd:clang-format dpkg-dev=cmd:dpkg-source libblas-dev=pc:blas"

probe() {
  case $1 in
    cmd:*) command -v "${1#cmd:}" >/dev/null 2>&1 ;;
    pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
    h:*) echo "#include <${1#h:}>" | g++ -std=c++20 -E -x c++ - >/dev/null 2>&1 ;;
    py:*) python3 -c "$(printf '%s' "${1#py:}" | sed 's/^import,/import /')" >/dev/null 2>&1 ;;
  esac
}

missing_packages() {
  local entry
  for entry in $wanted_packages; do
    probe "${entry#*=}" || printf '%s ' "${entry%%=*}"
  done
}

apt_install() {
  local as=""
  [ "$(id -u)" -eq 0 ] || as="sudo"
  local get="$as env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300"
  # shellcheck disable=SC2086
  $get install -y --no-install-recommends "$@" || { $get update && $get install -y --no-install-recommends "$@"; }
}

install_packages() {
  local missing
  missing=$(missing_packages)
  missing=${missing% }
  if [ -z "$missing" ]; then
    say "  everything needed is installed"
    return 0
  fi
  command -v apt-get >/dev/null 2>&1 || die "please install first (names of Debian's packages): $missing"
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || die "please have this run first, as root: apt-get install --no-install-recommends $missing"
    say "  installing as root: $missing"
    sudo -v || die "sudo was refused; please have this run first, as root: apt-get install --no-install-recommends $missing"
  fi
  # shellcheck disable=SC2086
  step "installing $(echo "$missing" | wc -w) packages" apt_install $missing || die "apt-get could not install: $missing"
  missing=$(missing_packages)
  [ -z "$missing" ] || say "  still not found (some checks will fail): $missing"
}
