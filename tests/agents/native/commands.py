"""Real commands under the verdict they must get. The folder is a repository; ``out`` is a link that leaves it."""

from __future__ import annotations

import re

SAFE = r"""
pwd
node --version
bun --version
ls
ls -la
ls -lah src
ls -1 --color=never
ls src/main.py
ls ./src/../docs
ls -R src
ls --all --human-readable
ls --sort=time
ls "a file.txt"
ls 'src'/main.py
ls -- -odd
ls *.md
ls src/*.py
ls s?c
ls nothing-*.txt
ls	src
echo
echo hello
echo -n hello world
echo "hello (world) [1]"
echo 'don t'
echo *.md
which python3
which -a git node
type ls
type -a git
git status
git status --short
git status -sb
git status --porcelain src
git log
git log --oneline
git log --oneline -5
git log -n 5
git log --max-count=3
git log --graph --all --decorate
git log --stat src/main.py
git log -p -- src
git log main..HEAD
git log HEAD~3
git log --since=yesterday --author=ann
git log --format=%h
git log --pretty="%h %s"
git log --date=iso
git log -- "*.py"
git diff
git diff --stat
git diff --cached
git diff HEAD^ src/main.py
git diff main...HEAD
git diff --name-only
git diff --unified=5
git diff -w
git branch
git branch -a
git branch -vv
git branch --show-current
git branch --list
"""

OPERATOR = r"""
ls; pwd
ls ;pwd
ls && pwd
ls || pwd
ls | wc -l
ls|wc
ls & pwd
ls &
ls > files.txt
ls >> files.txt
ls 2>/dev/null
ls 2>&1
ls &> log
wc < files.txt
cat << EOF
cat <<< word
echo `pwd`
echo $(pwd)
echo "$(pwd)"
echo "a; b"
echo 'a && b'
echo "a > b"
diff <(ls) x
ls >(cat)
git status; git log
git log | head
git diff > x.patch
git log > "x"
cat a | head
pwd; pwd
pwd && ls
node --version; ls
echo $((1<<2))
ls;
;ls
xargs ls < names
find . | xargs wc
find . -exec ls {} ;
cd src && ls
ls |& cat
cat /etc/passwd | head
ls ../.. | wc
"""

READS = r"""
cat README.md
cat
cat "a file.txt"
cat src/*.py
'cat' x
\cat x
c"a"t x
cat	x
head -n 5 README.md
tail -f log.txt
man ls
cat $FILE
"""

REVIEW = r"""

 ls
 pwd
pwd -P
node -v
node x.js
lsof
lsx
echoes
ls -L src
ls -H src
ls -RL src
ls --dereference
ls --hyperlink
ls -I x
ls --ignore=x
ls --sort=evil
ls -*
ls -w 5
ls $X
ls ${X}
ls "$X"
ls $1
ls !$
ls \*
ls [a-z]*
ls {a,b}
ls "unclosed
ls 'unclosed
ls # note
ls (x)
\ls
l\s
$'ls'
$'\x6cs'
"$CMD" x
$CMD
${CMD} x
LS
X=1 ls
LD_PRELOAD=evil.so ls
GIT_EXTERNAL_DIFF=evil git diff
env ls
env X=1 ls
command ls
exec ls
builtin echo x
eval ls
eval "ls"
sh -c ls
sh -c "ls src"
bash -c 'ls'
xargs ls
time ls
nohup ls
=ls
echo hi!
echo $X
echo "a\tb"
echo -e \x41
python3 -c "print(1)"
python3 x.py
npm test
make
cargo build
touch x
mkdir x
rm x
rm a b
mv a b
cp a b
ln -s a b
tee x
less README.md
grep -r x src
rg x
find .
find . -name x
find . -fprint x
find . -exec ls {} +
sort x
sort -o x y
sort --output=x y
sed -n 1p x
sed -i s/a/b/ x
sed --in-place s/a/b/ x
awk "1" x
tar xf a.tar
tar -cf a.tar src
curl x.example
wget x.example
ssh host ls
cd src
alias ls=rm
export X=1
source x.sh
. x.sh
uname -a
date
env
printenv
git
git show
git fetch
git pull
git push
git commit -m x
git add .
git checkout main
git reset
git stash
git config user.name x
git help log
git stat
git -c alias.status=x status
git -c core.fsmonitor=x status
git -c core.pager=x log
git -C src status
git --no-pager log
git --paginate log
git -p log
git --exec-path=x status
git --git-dir=x status
git diff --output=x
git diff --output x
git diff --outp=x
git diff --ext-diff
git diff --textconv
git diff --no-index a b
git diff *.md
git log --output=x
git log --ext-diff
git log -L1,2:x
git log --show-signature
git log --format=%G?
git log --pretty="%h %GS"
git log -S x
git log -Ox
git status *.md
git status --upload-pack=x
git status --column
git branch topic
git branch -d topic
git branch -m a b
git branch -c a b
git branch --delete topic
git branch --edit-description
git branch -u origin main
git branch --set-upstream-to=x
git branch --list topic
git branch -a topic
git "log --oneline"
"git status"
"ls -la"
type -z x
which -x y
echo -n $'x'
"""


REVIEW_LOOKALIKES = [
    "\u013cs",
    "l\u0455",
    "ls\u200b",
    "ls \xe9",
    "ls \u2044etc",
    "echo \u201chello\u201d",
    "echo \u202ex",
    "ls\xa0src",
]


def lines(table: str) -> list[str]:
    """The commands of a table, one a line; a line that ends in a backslash goes on, as it does in a shell."""
    return re.split(r"(?<!\\)\n", table.removeprefix("\n").removesuffix("\n"))
