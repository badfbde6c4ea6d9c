package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func (c *container) environment() []string {
	environment := append([]string{"PATH=" + systemPath}, c.image.Env...)
	for _, variable := range c.config.Envs {
		value, overridden := c.override[variable.Key]
		if !overridden {
			value = string(variable.Value)
		}
		environment = append(environment, variable.Key+"="+value)
	}
	return environment
}

func (c *container) workingDirectory() string {
	for _, directory := range []string{c.config.WorkingDir, c.image.WorkingDir} {
		if directory != "" {
			return directory
		}
	}
	return "/"
}

// privileges is the command that gives up what the security context does not grant.
func (c *container) privileges() []string {
	context := c.config.GetLinux().GetSecurityContext()
	user := c.image.User
	if context.GetRunAsUser() != nil {
		user = context.RunAsUser.Value
	}
	group := int64(0)
	if context.GetRunAsGroup() != nil {
		group = context.RunAsGroup.Value
	}
	// Another user's process forgets that it is to die with the kubelet.
	setpriv := []string{"/usr/bin/setpriv", "--pdeathsig", "KILL"}
	groups := []string{}
	for _, g := range context.GetSupplementalGroups() {
		groups = append(groups, strconv.FormatInt(g, 10))
	}
	if mapped, _ := os.ReadFile("/proc/self/setgroups"); !strings.HasPrefix(string(mapped), "deny") {
		setpriv = append(setpriv, "--reuid", strconv.FormatInt(user, 10), "--regid", strconv.FormatInt(group, 10))
		if len(groups) > 0 {
			setpriv = append(setpriv, "--groups", strings.Join(groups, ","))
		} else {
			setpriv = append(setpriv, "--clear-groups")
		}
	}
	if context.GetNoNewPrivs() {
		setpriv = append(setpriv, "--no-new-privs")
	}
	if slices.Contains(context.GetCapabilities().GetDropCapabilities(), "ALL") {
		keep := "-all"
		for _, capability := range context.Capabilities.AddCapabilities {
			keep += ",+" + strings.ToLower(strings.TrimPrefix(capability, "CAP_"))
		}
		setpriv = append(setpriv, "--inh-caps="+keep, "--bounding-set="+keep)
	}
	return append(setpriv, "--")
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quote(word)
	}
	return strings.Join(quoted, " ")
}

// command is the shell script that makes the container's root directory, moves
// into it and becomes the container's process.
func (c *container) command(pod *sandbox) (*exec.Cmd, error) {
	arguments := append(slices.Clone(c.config.Command), c.config.Args...)
	if len(c.config.Command) == 0 {
		rest := c.config.Args
		if len(rest) == 0 {
			rest = c.image.Cmd
		}
		arguments = append(slices.Clone(c.image.Entrypoint), rest...)
	}
	if len(arguments) == 0 {
		return nil, fmt.Errorf("no command specified")
	}

	var script strings.Builder
	line := func(format string, values ...any) { fmt.Fprintf(&script, format+"\n", values...) }
	line("container_path=$PATH PATH=%s", systemPath)
	line("exec 4>&2 2>&3")
	line("umask 022")
	line("mount --make-rprivate /")
	line("mount -t tmpfs tmpfs %s", quote(c.directory))
	line("cd %s", quote(c.directory))
	line("mkdir upper work root .image")
	if c.image.directory != "" {
		line("mount --bind %s .image", quote(filepath.Join(c.image.directory, "rootfs")))
	}
	line("mount -t overlay overlay -o lowerdir=/,upperdir=$PWD/upper,workdir=$PWD/work root")
	for _, mountPoint := range hostMounts() {
		line("mkdir -p root%[1]s && mount --rbind %[1]s root%[1]s && mount -o remount,bind,ro root%[1]s || true", quote(mountPoint))
	}
	line("mount -t proc proc root/proc")
	line("mount --rbind /sys root/sys")
	line("mount --rbind /dev root/dev")
	line("mount -t tmpfs -o mode=1777 tmpfs root/dev/shm")
	line("mount -t tmpfs tmpfs root/run")
	line("mkdir root/.host root/.files")
	line("mount --move .image root/.files 2>/dev/null || true")
	line("pivot_root root root/.host")
	line("cd /")
	// The image's files lie over those of the machine.
	line(`(cd /.files && find . -mindepth 1 -type d) | while read -r d; do mkdir -p "$d"; done`)
	line(`(cd /.files && find . -type l) | while read -r l; do ln -sfn "$(readlink "/.files/$l")" "$l"; done`)
	line(`(cd /.files && find . -type f) | while read -r f; do rm -f "$f"; : >"$f"; mount --bind "/.files/$f" "$f"; mount -o remount,bind,ro "$f"; done`)
	mounts := slices.Clone(c.config.Mounts)
	slices.SortStableFunc(mounts, func(a, b *criapi.Mount) int {
		return strings.Compare(path.Clean(a.ContainerPath), path.Clean(b.ContainerPath))
	})
	for _, mount := range mounts {
		source, target := quote("/.host"+mount.HostPath), quote(mount.ContainerPath)
		line("if [ -d %[1]s ]; then mkdir -p %[2]s; else mkdir -p $(dirname %[2]s); [ -e %[2]s ] || : >%[2]s; fi", source, target)
		line("mount --rbind %s %s", source, target)
		if mount.Readonly {
			line("mount -o remount,bind,ro %s", target)
		}
	}
	if pod.config.Hostname != "" {
		line("hostname %s", quote(pod.config.Hostname))
	}
	line("umount -l /.host")
	line("umount -l /.files 2>/dev/null || true")
	line("rmdir /.host /.files")
	if c.config.GetLinux().GetSecurityContext().GetReadonlyRootfs() {
		line("mount -o remount,bind,ro /")
	}
	line("mkdir -p %[1]s 2>/dev/null || true; cd %[1]s", quote(c.workingDirectory()))
	line("PATH=$container_path")
	line("command -v %[1]s >/dev/null || { echo exec: %[1]s: not found in PATH >&2; exit 127; }", quote(arguments[0]))
	line("exec 2>&4 3>&- 4>&-")
	line("exec %s", quoteAll(append(c.privileges(), arguments...)))

	file := filepath.Join(c.directory, "start.sh")
	if err := os.WriteFile(file, []byte(script.String()), 0o644); err != nil {
		return nil, err
	}
	command := exec.Command("/bin/sh", "-eu", file)
	command.Env = c.environment()
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	return command, nil
}

// hostMounts are the places, other than the root directory, where the machine
// has mounted file systems with files.
func hostMounts() []string {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer file.Close()
	var points []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)[0]
		point := fields[4]
		if slices.Contains([]string{"ext4", "ext3", "ext2", "xfs", "btrfs", "zfs", "overlay", "nfs", "nfs4", "virtiofs", "9p", "f2fs"}, kind) && point != "/" {
			points = append(points, point)
		}
	}
	return points
}
