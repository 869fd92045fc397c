"""Commands that name something out of scope, in every quoting."""

from __future__ import annotations

OUTSIDE = r"""
ls /
ls /etc
ls /etc/passwd
ls "/etc"
ls '/etc'
ls /"etc"
ls ""/etc
ls "/"etc
ls \/etc
ls $'/etc'
ls $'\x2fetc'
ls ..
ls ../
ls ../..
ls src/../..
ls ./..
ls ".."
ls .'.'
ls \../x
ls '../x'
ls -la ..
ls -- ..
ls ../*
ls ../x?
ls .*
ls .?
ls *a*b*c*
ls */..
ls {..,src}
ls {/etc,src}
ls {/etc/passwd,*}
ls out
ls out/
ls out/x
ls "out"
ls o*
ls out/*
ls ./out
ls */
ls ~
ls ~/
ls ~root
ls ~+/..
ls "~/x"
ls $HOME
ls ${HOME}
ls "$HOME/x"
ls "${HOME}"
ls ${HOME:-x}
ls $OLDPWD
ls C:\Users
ls C:/Users
ls "C:\Users"
ls \\server\share
cat /etc/passwd
cat ../secret
cat "../secret"
cat ~/.ssh/id_rsa
cat $HOME/.ssh/id_rsa
cat out/secret
head -n 1 /etc/passwd
tail -f /var/log/syslog
man /etc/passwd
echo /etc/*
echo ../*
echo ~
which /bin/ls
type ../x
/bin/ls
../run.sh
~/run.sh
/usr/bin/env ls
git --git-dir=/x status
git --git-dir=../x/.git status
git -C / status
git -C .. status
git diff --output=/tmp/x
git diff --output="/tmp/x"
git diff "--output=/tmp/x"
git diff --no-index /etc/passwd src
git diff /etc/passwd /etc/group
git diff ../a ../b
git log -- /etc
git log -- ../x
git show HEAD:../x
tool --opt=/etc
tool --opt="/etc"
tool '--opt=/etc'
tool -o=/etc
tool -o/etc
tool -L../x
tool --dir=..
tool --dir=~
tool @/etc/passwd
curl file:///etc/passwd
PATH=/tmp ls
X=../y ls
sh -c "ls /etc"
sh -c 'ls ..'
tar xf a.tar -C /
cp a.txt /etc/
ls "src /etc"
"""
