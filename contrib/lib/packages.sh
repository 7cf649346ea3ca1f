# Installs what is missing, on Debian and its relatives. Sourced after common.sh.

# package=probe: a package is asked for only if its probe fails, so that what came from elsewhere counts too.
#   cmd:NAME a command   pc:NAME a pkg-config module   h:FILE a header   py:CODE a Python statement   x:FILE an executable
#   f:FILE a file
wanted_packages="
  g++=cmd:g++ gcc=cmd:gcc make=cmd:make autoconf=cmd:autoconf automake=cmd:automake libtool=cmd:libtoolize pkg-config=cmd:pkg-config
  ccache=cmd:ccache git=cmd:git xz-utils=cmd:xz procps=cmd:ps
  libpmix-dev=pc:pmix libhwloc-dev=pc:hwloc libcli11-dev=h:CLI/CLI.hpp nlohmann-json3-dev=h:nlohmann/json.hpp
  catch2=h:catch2/catch.hpp libucx-dev=pc:ucx libibverbs-dev=pc:libibverbs
  python3=cmd:python3 python3-dev=py:import,sysconfig,os;assert(os.path.exists(sysconfig.get_path('include')+'/Python.h'))
  python3-venv=py:import,ensurepip,venv cmake=cmd:cmake clang-format=cmd:clang-format dpkg-dev=cmd:dpkg-source libblas-dev=pc:blas
  libfftw3-dev=pc:fftw3 flex=cmd:flex bison=cmd:bison perl=cmd:perl"
# For test/beds, asked for by contrib/check only. They bring services, which stay neither started nor enabled.
bed_packages="
  slurm-wlm=x:/usr/sbin/slurmctld munge=x:/usr/sbin/munged openssh-server=x:/usr/sbin/sshd openssh-client=cmd:ssh iproute2=cmd:ip
  qemu-system-x86=cmd:qemu-system-x86_64 busybox-static=cmd:busybox cpio=cmd:cpio kmod=cmd:modprobe
  ibverbs-providers=f:/etc/libibverbs.d/rxe.driver"

probe() {
  case $1 in
    x:*) [ -x "${1#x:}" ] ;;
    f:*) [ -e "${1#f:}" ] ;;
    cmd:*) command -v "${1#cmd:}" >/dev/null 2>&1 ;;
    pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
    h:*) echo "#include <${1#h:}>" | g++ -std=c++20 -E -x c++ - >/dev/null 2>&1 ;;
    py:*) python3 -c "$(printf '%s' "${1#py:}" | sed 's/^import,/import /')" >/dev/null 2>&1 ;;
  esac
}

missing_packages() { # missing_packages "$list"
  local entry
  for entry in $1; do
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

# The same without starting or enabling the services that come along: an sshd for tests is not to listen on the user's machine.
apt_install_idle() (
  guard=/usr/sbin/policy-rc.d fresh=""
  for unit in ssh munge slurmd slurmctld; do
    [ ! -d /run/systemd/system ] || systemctl cat $unit >/dev/null 2>&1 || fresh="$fresh $unit"
  done
  if [ ! -e $guard ]; then
    trap 'rm -f $guard' EXIT
    printf '#!/bin/sh\nexit 101\n' | install -m 755 /dev/stdin $guard || exit 1
  fi
  apt_install "$@" || exit 1
  # shellcheck disable=SC2086
  [ -z "$fresh" ] || systemctl --quiet disable $fresh
)

# What the test beds need beyond the rest. Without it their tests are skipped.
install_bed_packages() {
  local missing
  missing=$(missing_packages "$bed_packages")
  missing=${missing% }
  [ -n "$missing" ] || return 0
  if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" -ne 0 ]; then
    say "  the test beds, which only root can use, would need: $missing"
    return 0
  fi
  # shellcheck disable=SC2086
  step "installing for the test beds: $missing" apt_install_idle $missing || say "  the tests in beds will be skipped"
}

install_packages() {
  local missing
  missing=$(missing_packages "$wanted_packages")
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
  missing=$(missing_packages "$wanted_packages")
  [ -z "$missing" ] || say "  still not found (some checks will fail): $missing"
}
