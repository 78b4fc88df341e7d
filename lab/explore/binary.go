package explore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Binary is an operator as a separate, unchanged program in any language. Each process of a run is
// a process of the operating system: a kill is a SIGKILL. A proxy on a loopback port passes its
// requests to the control plane and injects the faults.
//
// Runs of a Binary take real time. The explorer does not decide the order of the operator's
// goroutines, so equal plans may give different runs, and every alarm is confirmed by further runs.
// The program must take the address of the control plane from the kubeconfig in the environment
// variable KUBECONFIG or from an argument, and must not need other services.
//
// Runs happen at the same time if each process can have its own network: on Linux, as root. Then
// ports that the program opens do not collide, and the program can only reach its control plane.
// Otherwise one run happens at a time, on the host's network.
type Binary struct {
	// Path is the file of the program.
	Path string
	// Args are its arguments, and Env the variables in addition to those of this process, as
	// NAME=VALUE. $KUBECONFIG in them becomes the path of the kubeconfig, and $CERTIFICATES that of
	// the folder with the certificate of the program's webhooks.
	Args, Env []string
	// Files are paths of files that an argument or a variable names, as PATH or NAME=PATH, such as
	// a configuration. Each process gets copies in which $KUBECONFIG and $CERTIFICATES are
	// replaced, and the paths of these copies. Relative paths are relative to Dir.
	Files []string
	// Dir is the folder in which the program runs; "" means that of this process.
	Dir string
	// WebhookPort is the port on which the program serves webhooks, if the scenario's Env has
	// testenv.Webhooks; "" means 9443. The explorer writes the files tls.crt, tls.key and ca.crt to
	// the folder $CERTIFICATES below TMPDIR, where controller-runtime looks for them by default.
	WebhookPort string
	// Parallel is the number of concurrent runs; 0 means two for each processor.
	Parallel int
}

// The periods of runs of a Binary, in real time.
const (
	wireQuiet   = 250 * time.Millisecond
	wireHorizon = 30 * time.Second
	// firstQuiet is how long the operator must be quiet after its very first start. After a later
	// start, the operator counts as started only when it watches the same resources again.
	firstQuiet = 2 * time.Second
	// jobQuiet is how long nothing must change while a Job runs. Simulated containers of Jobs end
	// after a second, and Kubernetes' Job controller writes the status of a Job up to a second
	// after a Pod has changed.
	jobQuiet = 2500 * time.Millisecond
	// endpointsQuiet is how long nothing must change if there are endpoints of a Service. After a
	// write, Kubernetes' EndpointSlice controller waits for a second.
	endpointsQuiet = 1500 * time.Millisecond
	// polling is the number of quiet periods during which nothing must change if the operator
	// continues to send requests.
	polling = 8
	// firstRequest is how long an operator may take to send its first request.
	firstRequest = 20 * time.Second
	// missingWatch is how long the explorer waits for a watch that has ended to begin again:
	// client-go lists again after a second or two.
	missingWatch = 5 * time.Second
	// lateRetry is how long an operator may wait before it retries after a 429 with a Retry-After
	// of a second, or after writes are no longer denied.
	lateRetry = 1500 * time.Millisecond
	// arrivalQuiet is how long no request or event must arrive before the explorer chooses one at
	// random.
	arrivalQuiet = 3 * time.Millisecond
)

func (b *Binary) validate() error {
	if b.Path == "" {
		return errors.New("the scenario's Binary has no Path")
	}
	path, err := exec.LookPath(b.Path)
	if err != nil {
		return fmt.Errorf("operator %s: %w", b.Path, err)
	}
	b.Path = path
	return b.checkFiles()
}

// runs returns how many runs happen at the same time.
func (b *Binary) runs(isolated bool) int {
	switch {
	case !isolated:
		return 1
	case b.Parallel > 0:
		return b.Parallel
	}
	return 2 * runtime.NumCPU()
}

// wire holds the data that the trials of a Binary share.
type wire struct {
	binary *Binary
	dir    string // for kubeconfigs
	temp   string // TMPDIR of processes that serve webhooks; "" means that of this process
	// certificates is the folder with the certificate of their webhooks.
	certificates string
	isolated     bool // processes have networks of their own
	// namespace is that of the operator's ServiceAccount; "" if it is not known.
	namespace string
	// watches counts the watches that are open when the operator has started, by resource. It is
	// nil before the first start.
	watches map[string]int
}

// command returns the program that talks to a kubeconfig. The copies of its files are in dir.
func (w *wire) command(ctx context.Context, dir, kubeconfig string) (*exec.Cmd, error) {
	v, err := newVariables(w.binary, dir, kubeconfig, w.certificates, "")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, w.binary.Path, v.replace(w.binary.Args)...)
	cmd.Dir = w.binary.Dir
	env := w.binary.inherited()
	if w.temp != "" {
		env = append(env, "TMPDIR="+w.temp)
	}
	if w.namespace != "" {
		env = append(env, "POD_NAMESPACE="+w.namespace)
	}
	cmd.Env = v.replace(append(append(env, "KUBECONFIG="+kubeconfig), w.binary.Env...))
	return cmd, nil
}

// settleWire does the same as settle for a Binary. The operator is quiet if all of these hold:
//
//   - It has sent a request, and all watches that it opens after a start without faults are open,
//     except those that a fault delays.
//   - The server processes no request, and no thread of the operator's process runs.
//   - No object has changed during the quiet period, and the operator has sent no request and
//     received no event. If it continues to send requests, nothing must change for eight times as
//     long. Events and Leases do not count. While a Job runs, or if there are endpoints of a
//     Service, the quiet period is longer.
func (t *trial) settleWire() bool {
	begin := time.Now()
	quiet, horizon := orDefault(t.setup.scenario.Quiet, wireQuiet), orDefault(t.setup.scenario.Horizon, wireHorizon)
	if t.setup.wire.watches == nil {
		quiet = max(quiet, firstQuiet)
	}
	changedAt, active, steps, missed := begin, begin, 0, t.operator.missed.Load()
	for {
		changed, step, ok := t.turn()
		if !ok {
			return false
		}
		now := time.Now()
		if n := t.operator.missed.Load(); n > missed {
			missed, quiet = n, max(quiet, lateRetry) // the caller of the webhook tries again later
		}
		if changed {
			changedAt, active = now, now
		}
		idle := now.Sub(active) >= quiet || now.Sub(changedAt) >= polling*quiet
		idle = idle && now.Sub(changedAt) >= t.history.lateWrites()
		switch {
		case step:
			if !background.Has(t.latest.call.resource) {
				active = now
			}
			if steps++; steps%maxDelay == 0 && t.injector.release() {
				changedAt, active = now, now
			}
			if steps > maxSteps {
				t.result.alarm("O4", "hot loop", t.result.loop(steps, time.Since(begin).Round(time.Second)))
				return false
			}
		case t.operator.process.requests.Load() == 0:
			if now.Sub(begin) > firstRequest {
				t.result.failed = fmt.Errorf(
					"the operator has sent no request to the control plane in %v: it must read the kubeconfig in the environment variable KUBECONFIG, or get it as an argument that contains $KUBECONFIG. The end of its output:\n%s",
					firstRequest, indent(t.operator.process.output.tail()))
				return false
			}
			t.gate.await(20 * time.Millisecond)
		case now.Sub(begin) > horizon+quiet:
			t.result.alarm("O4", "never quiet", fmt.Sprintf("after %v objects still change: %s", horizon,
				strings.Join(t.history.recent, ", ")))
			return false
		case idle && t.operator.process.idle(t.delays.cut, now.Sub(active)):
			if t.delays.denials && !t.delays.refusing() {
				quiet, t.delays.denials = max(quiet, lateRetry), false
				continue
			}
			if !t.injector.release() {
				before := t.history.changes
				if !t.confirmErrors() {
					return false
				}
				if t.history.changes == before {
					return true
				}
				changedAt, active = time.Now(), time.Now()
				continue
			}
			t.observed.forgetErrors()
			changedAt, active = now, now
		default:
			t.gate.await(10 * time.Millisecond)
		}
	}
}

// idle reports whether the process is quiet: no request is in flight, none of its threads runs, and
// all watches that it should have are open.
func (p *process) idle(cut map[string]bool, quietFor time.Duration) bool {
	if p.inflight.Load() > 0 || running(p.pid) {
		return false
	}
	want := p.operator.setup.wire.watches
	p.mu.Lock()
	defer p.mu.Unlock()
	for resource, n := range want {
		if p.watches[resource] < n && !cut[resource] && !p.missing[resource] {
			if quietFor < missingWatch {
				return false
			}
			if p.missing == nil {
				p.missing = map[string]bool{}
			}
			p.missing[resource] = true // it does not begin again
		}
	}
	return true
}

// watching records that a watch has begun (1) or ended (-1).
func (p *process) watching(resource string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watches == nil {
		p.watches = map[string]int{}
	}
	p.watches[resource] += n
}

// run runs the program until the context ends, and returns how it has ended.
func (w *wire) run(ctx context.Context, p *process, handler http.Handler) error {
	ended := make(chan error, 1)
	go func() { ended <- w.runOnThread(ctx, p, handler) }()
	return <-ended
}

// runOnThread does the work of run. If processes have their own networks, it does not unlock its
// thread, so that the thread ends with the goroutine.
func (w *wire) runOnThread(ctx context.Context, p *process, handler http.Handler) error {
	if w.isolated {
		if err := ownNetwork(); err != nil {
			return fmt.Errorf("create a network for the operator: %w", err)
		}
		if w.namespace != "" {
			// Without the file, only operators that need it fail, with messages of their own.
			_ = showNamespace(w.namespace)
		}
	}
	dir, err := os.MkdirTemp(w.dir, "process-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	front, err := serveFront(dir, handler)
	if err != nil {
		return err
	}
	defer front.close()
	dial, stop, err := dialHere()
	if err != nil {
		return err
	}
	defer stop()
	cmd, err := w.command(ctx, dir, front.kubeconfig)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	setGroup(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	p.mu.Lock()
	p.pid, p.dial = cmd.Process.Pid, dial
	p.mu.Unlock()
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil
	case p.output.panicked() != "":
		return &programPanic{p.output.panicked()}
	case err != nil:
		return fmt.Errorf("the process ended: %w. The end of its output:\n%s", err, indent(p.output.tail()))
	}
	return fmt.Errorf("the process ended with exit code 0. The end of its output:\n%s", indent(p.output.tail()))
}

// programPanic is the panic that has ended a program.
type programPanic struct{ detail string }

func (p *programPanic) Error() string { return p.detail }
