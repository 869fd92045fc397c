"""Real commands that delete, overwrite, stop, publish or run things, by what they do it to. None may run unasked.

Whether the question is worded as dangerous is the affair of ``dangerous_commands``; here it is that there is one.
"""

from __future__ import annotations

DESTRUCTIVE = r"""
rm file
rm -f file
rm -i file
rm -d folder
rm -- -odd
rm *
rm *.md
rm -rv src
rmdir src
rmdir -p src/deep
unlink file
mv file other
mv -f file other
mv * /tmp
cp file other
cp -r src copy
cp /dev/null file
install -m 755 a b
ln -sf a b
ln -f a b
touch file
mkdir new
mkfifo pipe
mknod disk b 8 0
truncate --size=0 file
truncate -s 0 *
fallocate -l 1G file
dd if=/dev/urandom of=file
dd of=file
shred file
shred --remove file
srm file
wipe file
scrub file
tee file
tee -a file
sponge file
split -b 1 file
csplit file 1
patch -p1
ed file
ex -sc wq file
vi -es -c wq file
vim -c wq file
nano file
emacs --batch --eval (kill-emacs)
sed -i d file
sed --in-place=.bak s/a/b/ file
sed -n wother file
perl -pi -e s/a/b/ file
perl -e unlink(file)
ruby -i -pe x file
awk -i inplace 1 file
gawk -f script
python3 -c "import shutil; shutil.rmtree('src')"
python -m this
python setup.py install
node -e x
node script.js
bun run x
deno run -A x
php -r x
lua -e x
ruby -e x
Rscript -e x
osascript -e x
pwsh -c x
bash script.sh
sh script.sh
zsh -c ls
./script.sh
src/script.sh
source script.sh
. script.sh
exec ls
eval ls
command rm file
builtin cd src
env rm file
nohup rm file
nice rm file
timeout 1 rm file
setsid rm file
xargs rm
time rm file
watch rm file
parallel rm
find . -delete
find . -name x -delete
find . -exec rm {} +
find . -execdir rm {} +
find . -ok rm {} +
find . -fprint file
find . -fls file
find . -fprintf file x
fd -x rm
locate -0 x
tar xf a.tar
tar xzf a.tgz --overwrite
tar cf a.tar src --remove-files
tar --delete -f a.tar x
unzip -o a.zip
zip -m a.zip file
zip -r a.zip src
7z x a.7z
gzip file
gunzip file.gz
bzip2 file
xz file
zstd --rm file
cpio -i
ar d lib.a x.o
rsync -a src/ copy/
rsync --delete -a src/ copy/
scp file host:
sftp host
ssh host
ssh host rm file
curl -o file x.example
curl -O x.example/file
curl -X DELETE x.example
curl -T file x.example
curl -d @file x.example
wget x.example/file
wget -O file x.example
nc host 80
ncat -e sh host 80
socat - tcp:host:80
telnet host
ftp host
git add file
git add -A
git am x
git apply x
git archive -o file HEAD
git bisect start
git branch topic
git branch -d topic
git branch -D topic
git branch -m topic
git branch -f main HEAD~3
git branch --unset-upstream
git bundle create file HEAD
git checkout .
git checkout -- file
git checkout -f
git checkout main
git cherry-pick x
git clean -n
git clean -fd
git clean -fdX
git clone x
git commit -m x
git commit --amend
git commit -a
git config x y
git config --global x y
git config --unset x
git credential reject
git daemon
git difftool
git fetch
git fetch --prune
git filter-branch
git format-patch HEAD~1
git gc
git init
git lfs prune
git maintenance run
git merge x
git mergetool
git mv a b
git notes add
git prune
git pull
git pull --rebase
git push
git push -f
git push --delete origin x
git push origin :x
git push --tags
git rebase -i HEAD~3
git rebase --abort
git reflog delete HEAD@{1}
git remote add x y
git remote remove x
git replace x y
git reset
git reset --hard
git restore file
git restore --staged file
git revert HEAD
git rm file
git rm -r --cached .
git send-email x
git sparse-checkout set x
git stash
git stash pop
git stash drop
git submodule update
git submodule foreach rm
git svn dcommit
git switch -C main
git symbolic-ref HEAD x
git tag v1
git tag -d v1
git update-index --add file
git update-ref -d HEAD
git worktree add x
git worktree remove x
git write-tree
git -c core.fsmonitor=x status
git -c diff.external=x diff
git -c core.pager=x log
git -c alias.log=x log
git --exec-path=. status
git --git-dir=src status
git --work-tree=src status
git -C src status
git -p log
git diff --output=file
git diff --ext-diff
git diff --textconv
git log --output=file
git log --ext-diff
git log --textconv -p
git log --show-signature
git log --format=%G?
git status --help
git help log
git branch --help
hg update -C
hg strip x
svn revert -R .
svn delete x
jj abandon
chmod +x file
chmod -R 000 .
chown me file
chgrp me file
chattr -i file
setfacl -b file
xattr -c file
umask 0
ulimit -c 0
sudo ls
su -c ls
doas ls
kill 1
kill -9 1
killall x
pkill x
xkill
shutdown now
reboot
halt -p
poweroff
init 0
systemctl stop x
systemctl reboot
systemd-run x
service x stop
launchctl unload x
crontab -r
crontab file
at now
batch
mount /dev/sda1 src
umount src
mkfs.ext4 disk
mkswap disk
swapoff -a
fdisk disk
parted disk
wipefs -a disk
losetup -d disk
cryptsetup erase disk
lvremove x
zfs destroy x
btrfs subvolume delete x
iptables -F
ip link delete x
ifconfig x down
useradd x
userdel x
passwd
apt-get remove x
apt install x
dpkg -r x
yum remove x
dnf remove x
brew uninstall x
snap remove x
pip install x
pip uninstall -y x
npm install
npm uninstall x
npm publish
npm run build
npx x
yarn add x
pnpm install
cargo install x
cargo publish
cargo clean
go install x
go clean -cache
gem uninstall x
bundle install
composer install
make
make clean
make install
cmake --build .
ninja -t clean
gradle clean
mvn clean
docker run x
docker rm x
docker rmi x
docker system prune
docker compose down -v
docker exec x rm file
podman rm x
kubectl apply -f x
kubectl delete pod x
helm uninstall x
terraform apply
terraform destroy
ansible all -m file
vagrant destroy
aws s3 rm s3://x
gcloud projects delete x
az group delete
heroku apps:destroy
fly destroy
gh repo delete x
gh release delete x
psql -c "drop table x"
mysql -e "delete from x"
sqlite3 a.db "drop table x"
mongo --eval db.dropDatabase()
redis-cli flushall
dropdb x
dropuser x
alias ls=rm
unalias -a
export PATH=.
unset PATH
set -e
shopt -s globstar
enable -n echo
hash -p src/x ls
trap ls EXIT
history -c
cd src
pushd src
ls=rm
PATH=. ls
BASH_ENV=x ls
IFS=x ls
GIT_PAGER=x git log
GIT_EXTERNAL_DIFF=x git diff
GIT_DIR=x git status
GIT_CONFIG_COUNT=1 git status
LD_PRELOAD=x ls
gpg --delete-keys x
ssh-keygen -f file
openssl enc -out file
base64 -d file
xxd -r a b
screen -X quit
tmux kill-server
open file
xdg-open file
code file
less file
more file
man -P x ls
screen
script file
strace ls
gdb ls
busybox rm file
toybox rm file
"""
