// Package simulated is a node runtime that simulates containers with timers and runs nothing.
//
// A container follows a script that is determined at its start: what it prints and when, how long
// it runs, and how it ends. By default, a container with restart policy Always runs forever, and
// others succeed after a second. A simple command defines the script instead (`sleep 30`, `sh -c
// "echo hello; exit 3"`; command.go documents what is supported), and annotations of the pod
// override both:
//
//	metadata:
//	  annotations:
//	    sim.kelson.dev/run-for: 90s
//	    sim.kelson.dev/exit-code: "1,1,0" # fails twice
//	    sim.kelson.dev/log.app: hello     # only for the container app
//
// All timers use package time, so years pass immediately in a testing/synctest bubble. Containers
// have no goroutines. A container's state depends only on its spec and its start time, so a later
// agent adopts the container in its state at that time.
//
// A container that is asked to stop ends immediately. The exit code is 0 if it would have run
// forever, like a server that shuts down cleanly, and otherwise 143, like a program that is ended
// by SIGTERM. With sim.kelson.dev/stop-after, it ends after that time, but is killed (137) at the
// end of the grace period.
//
// Commands executed in a container are simulated in the same way if they are simple enough, and
// otherwise refused. Simulated containers listen on no port.
//
//	agent := node.NewAgent(node.AgentConfig{…, Runtime: simulated.New(simulated.Config{})})
package simulated

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kelson.dev/kubernetes/node"
	"kelson.dev/kubernetes/node/containerlog"
)

// Scheme is the first part of the ids of all simulated containers.
const Scheme = "simulated://"

// Config configures a Runtime. All fields are optional.
type Config struct {
	// PodNetwork is the network of the pods' addresses; the zero value means 10.244.0.0/14,
	// which has more addresses than Kubernetes supports pods. If several runtimes serve one
	// control plane, each needs its own network.
	PodNetwork netip.Prefix
	// LogBytes is the maximum size of a container's log, which is in memory; 0 means 256 KiB.
	LogBytes int64
}

// Runtime implements node.Runtime.
type Runtime struct {
	config Config
	ids    atomic.Int64

	mu   sync.Mutex
	used map[netip.Addr]*sandbox
	next netip.Addr
}

// New returns a runtime without pods.
func New(config Config) *Runtime {
	if !config.PodNetwork.IsValid() {
		config.PodNetwork = netip.MustParsePrefix("10.244.0.0/14")
	}
	if config.LogBytes == 0 {
		config.LogBytes = 256 << 10
	}
	return &Runtime{config: config, used: map[netip.Addr]*sandbox{}, next: config.PodNetwork.Masked().Addr()}
}

// Info reports a large capacity.
func (*Runtime) Info() node.Info {
	return node.Info{Name: "simulated", Version: "1.0", Capacity: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("1000"),
	}}
}

// Sandbox allocates an address for the pod.
func (r *Runtime) Sandbox(ctx context.Context, pod *corev1.Pod) (node.Sandbox, error) {
	s := &sandbox{runtime: r, ctx: ctx, uid: string(pod.UID)}
	if err := r.address(s, pod.Status.PodIP); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, s.release)
	return s, nil
}

// address allocates an address for a sandbox: the wanted one if it belongs to the network, and is
// free or belonged to the same pod until its agent ended; otherwise the next free one.
func (r *Runtime) address(s *sandbox, wanted string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ip, err := netip.ParseAddr(wanted); err == nil && r.config.PodNetwork.Contains(ip) {
		if owner := r.used[ip]; owner == nil || owner.uid == s.uid && owner.ctx.Err() != nil {
			r.used[ip], s.ip = s, ip
			return nil
		}
	}
	// Of the next addresses, at most one is the network itself and the others are used.
	for range len(r.used) + 2 {
		r.next = r.next.Next()
		if !r.config.PodNetwork.Contains(r.next) {
			r.next = r.config.PodNetwork.Masked().Addr().Next()
		}
		if r.used[r.next] == nil {
			r.used[r.next], s.ip = s, r.next
			return nil
		}
	}
	return fmt.Errorf("no free address in the pod network %s", r.config.PodNetwork)
}

type sandbox struct {
	runtime *Runtime
	ctx     context.Context
	uid     string
	ip      netip.Addr

	mu         sync.Mutex
	containers []*container
}

func (s *sandbox) IP() string { return s.ip.String() }

func (s *sandbox) Start(_ context.Context, spec node.ContainerSpec) (node.Container, error) {
	script, err := scriptOf(spec)
	if err != nil {
		return nil, err
	}
	if spec.Event != nil {
		spec.Event(corev1.EventTypeNormal, "Pulled",
			fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod",
				spec.Container.Image))
	}
	id := fmt.Sprintf(Scheme+"%s-%s-%d-%d", s.uid, spec.Container.Name, spec.Attempt, s.runtime.ids.Add(1))
	return s.run(spec, script, id, time.Now()), nil
}

// Adopt computes the container's current state.
func (s *sandbox) Adopt(_ context.Context, spec node.ContainerSpec, status corev1.ContainerStatus) node.Container {
	script, err := scriptOf(spec)
	started := time.Now()
	switch state := status.State; {
	case err != nil:
		script.runFor, script.code = 0, 128
	case state.Running != nil:
		started = state.Running.StartedAt.Time
	case state.Terminated != nil:
		started = state.Terminated.StartedAt.Time
		script.runFor, script.code = state.Terminated.FinishedAt.Sub(started), state.Terminated.ExitCode
		script.reason, script.message = state.Terminated.Reason, state.Terminated.Message
	}
	return s.run(spec, script, status.ContainerID, started)
}

func (s *sandbox) run(spec node.ContainerSpec, script script, id string, started time.Time) *container {
	log, err := containerlog.New(containerlog.Config{MaxBytes: s.runtime.config.LogBytes})
	if err != nil {
		panic(err) // logs in memory have no errors
	}
	c := &container{id: id, script: script, env: spec.Env, started: started, log: log, done: make(chan struct{})}
	c.detach = context.AfterFunc(s.ctx, func() { c.kill(time.Now()) })
	s.mu.Lock()
	s.containers = append(s.containers, c)
	s.mu.Unlock()
	c.advance()
	return c
}

func (s *sandbox) Remove() error {
	s.mu.Lock()
	containers := s.containers
	s.mu.Unlock()
	for _, c := range containers {
		c.kill(time.Now())
		c.detach()
		c.log.Release()
	}
	s.release()
	return nil
}

// release frees the sandbox's address.
func (s *sandbox) release() {
	s.runtime.mu.Lock()
	defer s.runtime.mu.Unlock()
	if s.runtime.used[s.ip] == s {
		delete(s.runtime.used, s.ip)
	}
}

// container executes a script.
type container struct {
	id      string
	script  script
	env     []corev1.EnvVar
	started time.Time
	log     *containerlog.Log
	done    chan struct{}
	detach  func() bool

	mu      sync.Mutex
	printed int         // number of printed lines
	timer   *time.Timer // for the next step of the script
	stop    *time.Timer // for the end after Stop
	stopAt  time.Time
	ended   bool
	exit    node.Exit
	after   []func() // are called when it ends
}

func (c *container) ID() string            { return c.id }
func (c *container) StartedAt() time.Time  { return c.started }
func (c *container) Done() <-chan struct{} { return c.done }

// AfterEnd implements [node.EndNotifier].
func (c *container) AfterEnd(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		f()
		return
	}
	c.after = append(c.after, f)
}

func (c *container) Exit() node.Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit
}

// advance executes the due steps of the script and sets the timer for the next one.
func (c *container) advance() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	passed := time.Since(c.started)
	for c.printed < len(c.script.lines) {
		next := c.script.lines[c.printed]
		if next.after > passed || c.script.runFor != forever && next.after > c.script.runFor {
			break
		}
		c.log.Append(c.started.Add(next.after), containerlog.Stdout, next.text)
		c.printed++
	}
	if c.script.runFor != forever && passed >= c.script.runFor {
		c.end(node.Exit{Code: c.script.code, Reason: c.script.reason, Message: c.script.message,
			FinishedAt: c.started.Add(c.script.runFor)})
		return
	}
	wait := forever
	if c.script.runFor != forever {
		wait = c.script.runFor - passed
	}
	if c.printed < len(c.script.lines) {
		if d := c.script.lines[c.printed].after - passed; wait == forever || d < wait {
			wait = d
		}
	}
	if wait != forever {
		c.timer = time.AfterFunc(wait, c.advance)
	}
}

// Stop simulates SIGTERM, and SIGKILL after the grace period.
func (c *container) Stop(grace time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	exit := node.Exit{Code: 143, Signal: 15}
	if c.script.runFor == forever {
		exit = node.Exit{Code: c.script.code, Message: c.script.message}
	}
	wait := c.script.stopAfter
	if wait > grace {
		wait, exit = grace, node.Exit{Code: 137, Signal: 9}
	}
	if wait <= 0 {
		exit.FinishedAt = time.Now()
		c.end(exit)
		return
	}
	at := time.Now().Add(wait)
	if c.stop != nil {
		if !at.Before(c.stopAt) {
			return
		}
		c.stop.Stop()
	}
	c.stopAt = at
	c.stop = time.AfterFunc(wait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		exit.FinishedAt = at
		c.end(exit)
	})
}

// kill ends the container immediately.
func (c *container) kill(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(node.Exit{Code: 137, Signal: 9, FinishedAt: at})
}

// end ends the container, once. The caller holds mu.
func (c *container) end(exit node.Exit) {
	if c.ended {
		return
	}
	c.ended, c.exit = true, exit
	for _, timer := range []*time.Timer{c.timer, c.stop} {
		if timer != nil {
			timer.Stop()
		}
	}
	c.log.Close()
	close(c.done)
	for _, f := range c.after {
		f()
	}
	c.after = nil
}

func (c *container) Logs(ctx context.Context, opts *corev1.PodLogOptions) (io.ReadCloser, error) {
	log := c.log.Read(ctx, containerlog.FromPodLogOptions(opts, time.Now()))
	if !c.script.notRun || opts.TailLines != nil && *opts.TailLines == 0 {
		return log, nil
	}
	text := notRun
	if opts.Timestamps {
		text = c.started.UTC().Format(time.RFC3339Nano) + " " + text
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(text), log), log}, nil
}

// notRun is the log of containers whose program is not simulated. It is not in the memory of the
// log, of which there are as many as containers.
const notRun = "[kelson] this container is simulated: its program does not run, so it has no output; " + HowToRun + "\n"

// HowToRun says which nodes run the programs of containers.
const HowToRun = "kelson serve --node=process runs commands as processes of this machine, --node=containers runs images"
