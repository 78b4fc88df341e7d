package process

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// Kubelet's period of the CPU quota, and the smallest quota that the kernel accepts.
const (
	cpuPeriod   = 100 * time.Millisecond
	smallestCPU = time.Millisecond
)

// cgroups creates the control groups in which the kernel enforces the limits of containers:
//
//	v2: <parent>/kelson-<hash>/<container>            memory.max, cpu.max, cpu.weight
//	v1: <parent of memory>/kelson-<hash>/<container>  memory.limit_in_bytes
//	    <parent of cpu>/kelson-<hash>/<container>     cpu.cfs_quota_us, cpu.shares
//
// Limits become quotas, and requests of CPU become weights: while containers compete, each gets CPU
// time in proportion to its request.
//
// Every container also has a group in the unified hierarchy, if this process may create one there:
// that of its limits, or one without settings. Its processes can't leave it, so all of them can be
// killed when the container ends.
//
// The hash is of the runtime's directory. The groups of a runtime exist while it has containers.
// It is safe for concurrent use.
type cgroups struct {
	name    string
	parents func() *hierarchies
	// tracking returns the directory of the unified hierarchy below which all containers have
	// groups; "" if there is none.
	tracking func() string

	mu sync.Mutex
}

// hierarchies are the directories in which this process may create control groups. Where the system
// allows none, all are empty.
type hierarchies struct {
	unified     string // v2
	memory, cpu string // v1
	own         string // v1: the memory group of this process
}

func newCgroups(root string) *cgroups {
	h := fnv.New64a()
	h.Write([]byte(root))
	name := fmt.Sprintf("kelson-%x", h.Sum64())
	c := &cgroups{name: name, parents: sync.OnceValue(func() *hierarchies { return findHierarchies(name) })}
	c.tracking = sync.OnceValue(func() string { return findTracking(c.parents().unified, name) })
	return c
}

// share has the limits and the request that the kernel enforces for a container; zero means none.
type share struct {
	memory      int64 // bytes
	cpu, weight int64 // thousandths of a processor: the limit and the request
}

func shareOf(r corev1.ResourceRequirements) share {
	return share{memory: r.Limits.Memory().Value(), cpu: r.Limits.Cpu().MilliValue(),
		weight: r.Requests.Cpu().MilliValue()}
}

// quota returns the value of cpu.cfs_quota_us; -1 means none.
func (s share) quota() int64 {
	if s.cpu == 0 {
		return -1
	}
	return max(time.Duration(s.cpu)*cpuPeriod/1000, smallestCPU).Microseconds()
}

// shares returns the value of cpu.shares. As in a kubelet, a processor corresponds to 1024.
func (s share) shares() int64 {
	if s.weight == 0 {
		return 1024 // the default of the kernel
	}
	return min(max(s.weight*1024/1000, 2), 262144)
}

// unified returns the settings of a group of the unified hierarchy.
func (s share) unified() map[string]string {
	all := map[string]string{"memory.max": "max", "cpu.max": "max", "cpu.weight": "100"}
	if s.memory > 0 {
		// As in a kubelet: no swap, and all processes of the container end together.
		all["memory.max"], all["memory.swap.max"], all["memory.oom.group"] = strconv.FormatInt(s.memory, 10), "0", "1"
	}
	if s.cpu > 0 {
		all["cpu.max"] = fmt.Sprintf("%d %d", s.quota(), cpuPeriod.Microseconds())
	}
	if s.weight > 0 { // maps the range of shares to that of weights
		all["cpu.weight"] = strconv.FormatInt(1+(s.shares()-2)*9999/262142, 10)
	}
	return all
}

// processors returns the settings of a group in the cpu hierarchy.
func (s share) processors() map[string]string {
	return map[string]string{
		"cpu.cfs_period_us": strconv.FormatInt(cpuPeriod.Microseconds(), 10),
		"cpu.cfs_quota_us":  strconv.FormatInt(s.quota(), 10),
		"cpu.shares":        strconv.FormatInt(s.shares(), 10),
	}
}

// available reports whether this process can create groups with limits.
func (c *cgroups) available() bool { return *c.parents() != (hierarchies{}) }

// tracked reports whether all containers have groups from which their processes can be killed.
func (c *cgroups) tracked() bool { return c.tracking() != "" }

// new returns the group of a container; nil if the system does not let this process create the
// groups that the container needs.
func (c *cgroups) new(id string, s share) (g *cgroup, err error) {
	defer func() {
		if g.tracks() {
			g.guard = newGuard(g.unified.Name())
		}
	}()
	g, err = c.limit(id, s)
	if err != nil || g.tracks() || !c.tracked() {
		return g, err
	}
	if g == nil {
		g = &cgroup{owner: c}
	}
	dir, err := g.add(c.tracking(), id, nil)
	if err == nil {
		g.unified, err = os.Open(dir)
	}
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

// limit returns a group with limits; nil if the container needs none, or the system does not let
// this process create such groups.
func (c *cgroups) limit(id string, s share) (_ *cgroup, err error) {
	if s == (share{}) {
		return nil, nil
	}
	parents := c.parents()
	g := &cgroup{owner: c}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	switch {
	case parents.unified != "":
		dir, err := g.add(parents.unified, id, s.unified())
		if err != nil {
			return nil, err
		}
		g.memory, g.cpu = dir, dir
		g.unified, err = os.Open(dir)
		return g, err
	case parents.memory != "":
		if s.memory > 0 {
			text := strconv.FormatInt(s.memory, 10)
			if g.memory, err = g.add(parents.memory, id, map[string]string{"memory.limit_in_bytes": text}); err != nil {
				return nil, err
			}
			// This limit is that of memory and swap together. Kernels without swap accounting lack
			// the file.
			if err := write(g.memory, "memory.memsw.limit_in_bytes", text); err != nil &&
				!errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			// Both are opened here, because a container's thread does not see these directories.
			if g.enter, err = os.OpenFile(filepath.Join(g.memory, "tasks"), os.O_WRONLY, 0); err != nil {
				return nil, err
			}
			if g.leave, err = os.OpenFile(filepath.Join(parents.own, "tasks"), os.O_WRONLY, 0); err != nil {
				return nil, err
			}
		}
		if s.cpu > 0 || s.weight > 0 {
			dir, err := g.add(parents.cpu, id, s.processors())
			if err != nil {
				return nil, err
			}
			g.cpu = dir
			if g.processes, err = os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0); err != nil {
				return nil, err
			}
		}
		return g, nil
	}
	return nil, nil
}

// cgroup is the control group of a container. A nil cgroup limits nothing.
type cgroup struct {
	owner *cgroups
	dirs  []string
	// the directories of dirs that limit memory and CPU; "" for none
	memory, cpu string

	unified      *os.File // v2
	enter, leave *os.File // v1: the tasks of the group for memory, and of this process's own
	processes    *os.File // v1: the processes of the group for processors

	guard *guard
}

// add creates the group id below parent.
func (g *cgroup) add(parent, id string, settings map[string]string) (dir string, err error) {
	g.owner.mu.Lock()
	defer g.owner.mu.Unlock()
	base := filepath.Join(parent, g.owner.name)
	if err := makeGroup(base); err != nil {
		return "", err
	}
	if parent == g.owner.parents().unified {
		if err := delegate(base); err != nil {
			return "", err
		}
	}
	dir = filepath.Join(base, id)
	g.dirs = append(g.dirs, dir)
	if err := makeGroup(dir); err != nil {
		return "", err
	}
	return dir, settle(dir, settings)
}

// start starts a command in the group. The command inherits no file descriptors other than those of
// cmd. The kernel kills it when the thread that calls start ends, at the latest with this process.
func (g *cgroup) start(cmd *exec.Cmd) error {
	if err := withholdDescriptors(); err != nil {
		return err
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = unix.SIGKILL
	if g == nil {
		return cmd.Start()
	}
	if g.unified != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(g.unified.Fd())
	}
	if g.enter == nil && g.processes == nil {
		return cmd.Start()
	}
	// A process inherits the group of the thread that starts it. This thread is not limited: its
	// memory is that of the whole process, which is in another group.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if g.enter != nil {
		if _, err := g.enter.WriteString("0"); err != nil {
			return fmt.Errorf("limit the memory of the container: %w", err)
		}
	}
	err := cmd.Start()
	if g.enter != nil {
		if _, leaving := g.leave.WriteString("0"); leaving != nil {
			runtime.LockOSThread() // the thread ends with the goroutine
		}
	}
	// A thread of this process with a quota could delay all others, so the new process is moved
	// after its start.
	if err == nil && g.processes != nil {
		if _, err := g.processes.WriteString(strconv.Itoa(cmd.Process.Pid)); err != nil && !errors.Is(err, unix.ESRCH) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return fmt.Errorf("limit the processors of the container: %w", err)
		}
	}
	return err
}

// resize changes the limits and weights that the kernel enforces. It returns an error if the
// container runs without the groups that this needs; groups can't be added while it runs.
func (g *cgroup) resize(s share) error {
	missing := func(dir string, wanted bool) bool { return wanted && dir == "" }
	switch {
	case s == (share{}) && (g == nil || g.memory == "" && g.cpu == ""):
		return nil
	case g == nil, missing(g.memory, s.memory > 0), missing(g.cpu, s.cpu > 0 || s.weight > 0):
		return errNoGroup
	case g.owner.parents().unified != "":
		return settle(g.memory, s.unified())
	}
	if g.cpu != "" {
		if err := settle(g.cpu, s.processors()); err != nil {
			return err
		}
	}
	if g.memory == "" {
		return nil
	}
	text := strconv.FormatInt(s.memory, 10)
	if s.memory == 0 {
		text = "-1"
	}
	// The limit of memory must not exceed that of memory and swap. So a higher limit and a lower
	// limit need different orders of writing the two.
	names := []string{"memory.memsw.limit_in_bytes", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
	var err error
	for _, name := range names {
		err = write(g.memory, name, text)
		if errors.Is(err, fs.ErrNotExist) { // no swap accounting
			err = nil
		}
	}
	if err != nil {
		return err
	}
	have, err := os.ReadFile(filepath.Join(g.memory, "memory.limit_in_bytes"))
	if got := strings.TrimSpace(string(have)); err == nil && s.memory > 0 && got != text {
		return fmt.Errorf("limit memory to %s: the limit is %s", text, got)
	}
	return err
}

// settle writes the settings of a group.
func settle(dir string, settings map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if err := write(dir, name, settings[name]); err != nil &&
			!(name == "memory.swap.max" && errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// outOfMemory reports whether the kernel killed a process of the group because of its limit.
func (g *cgroup) outOfMemory() bool {
	if g == nil || g.memory == "" {
		return false
	}
	for _, name := range []string{"memory.events", "memory.oom_control"} {
		text, _ := os.ReadFile(filepath.Join(g.memory, name))
		for line := range strings.Lines(string(text)) {
			if count, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok && count != "0" {
				return true
			}
		}
	}
	return false
}

// tracks reports whether the group has all processes of the container, so that kill ends them.
func (g *cgroup) tracks() bool { return g != nil && g.unified != nil }

// kill kills the processes in the group.
func (g *cgroup) kill() {
	if g == nil {
		return
	}
	for _, dir := range g.dirs {
		_ = write(dir, killFile, "1") // missing in v1, and in kernels before 5.14: see removeGroup
	}
}

// killFile is the file of a group in the unified hierarchy that kills its processes.
const killFile = "cgroup.kill"

// endLeftovers kills the processes in the groups of a pod's containers that an earlier process
// left, and removes the groups.
func (c *cgroups) endLeftovers(pod string) {
	p := c.parents()
	parents := []string{p.unified, p.memory, p.cpu, c.tracking()}
	slices.Sort(parents)
	for _, parent := range slices.Compact(parents) {
		if parent == "" {
			continue
		}
		base := filepath.Join(parent, c.name)
		entries, _ := os.ReadDir(base)
		for _, e := range entries {
			if e.IsDir() && strings.HasPrefix(e.Name(), pod+"-") {
				removeGroup(filepath.Join(base, e.Name()))
			}
		}
	}
}

// close kills the processes that are left in the group and removes it.
func (g *cgroup) close() {
	if g == nil {
		return
	}
	g.guard.close()
	for _, f := range []*os.File{g.unified, g.enter, g.leave, g.processes} {
		if f != nil {
			f.Close()
		}
	}
	for _, dir := range g.dirs {
		removeGroup(dir)
		g.owner.mu.Lock()
		os.Remove(filepath.Dir(dir)) // succeeds after the last container
		g.owner.mu.Unlock()
	}
}

// removeGroup kills the processes in a group and removes it. It waits up to a second for the end of
// its processes.
func removeGroup(dir string) {
	for range 100 {
		if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		_ = write(dir, killFile, "1")
		text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for line := range strings.Lines(string(text)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 1 && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// findHierarchies returns the directories where this process may create control groups.
func findHierarchies(name string) *hierarchies {
	mounts := groupMounts()
	if m, ok := mounts["memory"]; ok {
		if cpu, ok := mounts["cpu"]; ok && creatable(m, name) && creatable(cpu, name) {
			return &hierarchies{memory: m, cpu: cpu, own: m}
		}
		return &hierarchies{}
	}
	current, ok := mounts[""]
	if !ok {
		return &hierarchies{}
	}
	// A group with processes can't have limited children, so the group is created beside that of
	// this process, or at the root.
	for _, parent := range []string{mounts["root"], filepath.Dir(current)} {
		if len(parent) >= len(mounts["root"]) && limiting(parent, name) {
			return &hierarchies{unified: parent}
		}
	}
	return &hierarchies{}
}

// findTracking returns a directory of the unified hierarchy where this process may create groups,
// and start processes in them; "" if there is none. limits is the directory of groups with limits,
// or "".
func findTracking(limits, name string) string {
	parents := []string{limits}
	if mounts := groupMounts(); limits == "" && mounts[""] != "" {
		parents = []string{mounts["root"], filepath.Dir(mounts[""]), mounts[""]}
	}
	for _, parent := range parents {
		if parent != "" && exists(filepath.Join(parent, "cgroup.procs")) && creatable(parent, name) &&
			startable(filepath.Join(parent, name)) {
			return parent
		}
	}
	return ""
}

// startable reports whether this process may start processes in the group dir. Some filters of
// system calls forbid that.
func startable(dir string) bool {
	if makeGroup(dir) != nil {
		return false
	}
	defer os.Remove(dir)
	// Processes start in a child of the group, because the group itself may have limited children.
	dir = filepath.Join(dir, "try")
	if makeGroup(dir) != nil {
		return false
	}
	defer os.Remove(dir)
	group, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer group.Close()
	// The new process enters the group before it fails to execute a directory.
	_, err = syscall.ForkExec("/", []string{"/"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())},
	})
	return errors.Is(err, syscall.EACCES)
}

// groupMounts returns the directories of this process's own groups by controller. The group of the
// unified hierarchy has the key "", and the hierarchy's mount point has the key "root".
func groupMounts() map[string]string {
	paths := map[string]string{}
	text, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 {
			for controller := range strings.SplitSeq(parts[1], ",") {
				paths[controller] = parts[2]
			}
		}
	}
	all := map[string]string{}
	text, _ = os.ReadFile("/proc/self/mountinfo")
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		mount, fsType := strings.Fields(before), strings.Fields(after)
		if len(mount) < 5 || len(fsType) < 3 {
			continue
		}
		at := func(controller string) string {
			if dir := filepath.Join(mount[4], strings.TrimPrefix(paths[controller], mount[3])); exists(dir) {
				return dir
			}
			return mount[4]
		}
		switch fsType[0] {
		case "cgroup2":
			all[""], all["root"] = at(""), mount[4]
		case "cgroup":
			for option := range strings.SplitSeq(fsType[2], ",") {
				if option == "memory" || option == "cpu" {
					all[option] = at(option)
				}
			}
		}
	}
	return all
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// creatable reports whether this process may create the group name in parent. It removes groups
// that an earlier process left in it.
func creatable(parent, name string) bool {
	dir := filepath.Join(parent, name)
	if err := makeGroup(dir); err != nil {
		return false
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	os.Remove(dir)
	return true
}

// limiting reports whether the unified hierarchy lets this process limit groups below parent.
func limiting(parent, name string) bool {
	// The controllers may be on already, and this process may not be allowed to turn them on.
	_ = write(parent, "cgroup.subtree_control", "+memory +cpu")
	if !creatable(parent, name) {
		return false
	}
	dir := filepath.Join(parent, name)
	if err := makeGroup(dir); err != nil {
		return false
	}
	defer os.Remove(dir)
	return delegate(dir) == nil
}

// delegate lets the children of a group of the unified hierarchy limit memory and processors.
func delegate(dir string) error { return write(dir, "cgroup.subtree_control", "+memory +cpu") }

func makeGroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create control group: %w", err)
	}
	return nil
}

// write sets a value of a group. It does not create the file.
func write(dir, name, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
