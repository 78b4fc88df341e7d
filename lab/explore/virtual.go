package explore

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"kelson.dev/lab/agent"
	"kelson.dev/lab/agent/inside"
)

// virtual holds the data that the trials of a Program share.
type virtual struct {
	program      *Binary
	dir          string // for the kubeconfig and certificates
	certificates string // the folder of the certificate of webhooks
	pool         *agent.Pool
	former       *agent.Pool            // of the former version; nil for none
	others       map[string]*agent.Pool // of the other operators, by name
	zone         *agent.Pool            // in another time zone; nil until a plan needs it
	// newPool starts processes of a program, with more variables of the environment.
	newPool  func(b *Binary, waiting int, env ...string) *agent.Pool
	closed   sync.Once
	external []agent.External // of all processes
	// mu guards running, the processes that belong to a run.
	mu      sync.Mutex
	running map[*agent.Process]bool
	// unanswered are the requests to services for which there was no answer, in all runs.
	unanswered []string
}

// waitingProcesses is the number of processes that start in advance.
const waitingProcesses = 2

// newVirtual starts the first processes of the Program of a scenario. Its Pod is in the namespace
// of its ServiceAccount, in which operators create their Leases.
func newVirtual(s *Scenario) (_ *virtual, err error) {
	b, former, namespace := s.Program, s.FormerProgram, s.namespace
	v := &virtual{program: b, running: map[*agent.Process]bool{}}
	if v.dir, err = os.MkdirTemp("", "kelson-explore-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(v.dir)
		}
	}()
	temp := filepath.Join(v.dir, "tmp")
	v.certificates = filepath.Join(temp, hookFolder)
	if err := os.Mkdir(temp, 0o700); err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(v.dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(agent.Kubeconfig), 0o600); err != nil {
		return nil, err
	}
	var files serviceFiles
	if len(s.Services) > 0 {
		if files, err = writeServiceFiles(v.dir, s.Services); err != nil {
			return nil, fmt.Errorf("certificates of services: %w", err)
		}
	}
	variables, err := newVariables(b, v.dir, kubeconfig, v.certificates, files.authority)
	if err != nil {
		return nil, err
	}
	env := append(b.inherited(), "TMPDIR="+temp, "KUBECONFIG="+kubeconfig)
	if namespace != "" {
		env = append(env, "POD_NAMESPACE="+namespace)
	}
	if len(s.Services) > 0 {
		env = append(env, files.variables(s.Services, slices.ContainsFunc(b.Env, func(v string) bool {
			return strings.HasPrefix(v, inside.AllowVariable+"=")
		}))...)
	}
	v.newPool = func(b *Binary, waiting int, more ...string) *agent.Pool {
		return agent.NewPool(agent.Config{Path: b.Path, Dir: b.Dir, Args: variables.replace(b.Args),
			Env: variables.replace(slices.Concat(env, b.Env, more))}, waiting)
	}
	v.pool = v.newPool(b, waitingProcesses)
	v.others = map[string]*agent.Pool{}
	for _, o := range s.Others {
		v.others[o.Name] = v.newPool(o.Program, 1)
	}
	if former != nil {
		v.former = v.newPool(former, 1)
	}
	return v, nil
}

// interrupt ends the processes that run, so that the run ends, too.
func (v *virtual) interrupt() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for p := range v.running {
		p.Interrupt()
	}
}

// runs notes whether a process belongs to a run.
func (v *virtual) runs(p *agent.Process, running bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if running {
		v.running[p] = true
	} else {
		delete(v.running, p)
	}
}

func (v *virtual) close() {
	v.closed.Do(func() {
		for _, pool := range []*agent.Pool{v.pool, v.former, v.zone} {
			if pool != nil {
				pool.Close()
			}
		}
		for _, pool := range v.others {
			pool.Close()
		}
		os.RemoveAll(v.dir)
	})
}

// noteUnanswered adds requests for which there was no answer.
func (v *virtual) noteUnanswered(requests []string) {
	for _, r := range requests {
		if !slices.Contains(v.unanswered, r) {
			v.unanswered = append(v.unanswered, r)
		}
	}
}

// asUser sends requests as a user, unless they name another one.
type asUser struct {
	name  string
	inner http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (u asUser) RoundTrip(r *http.Request) (*http.Response, error) {
	if u.name != "" && r.Header.Get("Impersonate-User") == "" {
		r.Header.Set("Impersonate-User", u.name)
	}
	return u.inner.RoundTrip(r)
}

// documents serves requests for documents of the API, which are not steps.
type documents struct {
	process *process
	inner   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (d *documents) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(context.WithValue(r.Context(), processKey{}, d.process))
	acceptJSON(r)
	d.process.requests.Add(1)
	return d.inner.RoundTrip(r)
}

// endProgram ends the process of a Program, with the error of its link, or nil if it was killed.
func (p *process) endProgram(err error) {
	if p.link == nil {
		return
	}
	select {
	case <-p.ended:
		return
	default:
	}
	p.link.Close()
	for _, e := range p.link.External() {
		of := p.operator.setup.virtual
		of.external = agent.AddExternal(of.external, e)
	}
	if err != nil {
		err = p.program.Ended()
		_, _ = p.output.Write(p.program.Output()) // returns no error
		result := p.operator.result
		if reason := p.program.Stuck(); p.operator.setup.ctx.Err() != nil {
			result.failed = p.operator.setup.ctx.Err() // which has ended the process
		} else if reason != "" { // the operator has no bug, but does not run in virtual time
			result.failed = fmt.Errorf("plan %q: %s%s", p.operator.setup.plan, reason, waitsFor(p.output.all()))
		}
		if panicked := p.output.panicked(); panicked != "" && result.failed == nil {
			p.err = &programPanic{panicked}
		} else {
			p.err = fmt.Errorf("%w. The end of its output:\n%s", err, indent(p.output.tail()))
		}
	}
	p.operator.setup.virtual.runs(p.program, false)
	p.program.Kill()
	close(p.ended)
}

// waitsFor describes the goroutines for which virtual time waited, of the output of a process.
func waitsFor(output string) string {
	found := inside.Blocked(output)
	if found == "" {
		return ""
	}
	return ". These goroutines wait:\n" + indent(found)
}

// hasArrived reports whether a step has arrived since the last call, as await does.
func (g *gate) hasArrived() bool {
	select {
	case <-g.arrived:
		return true
	default:
		return false
	}
}
