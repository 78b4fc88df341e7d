package rights

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"kelson.dev/cmd/kelson/internal/child"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/lab/rights"
	"kelson.dev/operator/operatortest/record"
	"kelson.dev/toolchain/gen/rbac"
)

// runner runs a project's operator and records its requests.
type runner struct {
	dir, temp string // of the project, and for temporary files
	self      string // this program
	progress  *output.Progress

	tests   []testBinary  // nil without --test
	explore time.Duration // how long to explore; 0 without --explore

	declared []rbac.Declaration
	recorded int // the number of recordings
}

// testBinary is the test program of a package.
type testBinary struct{ pkg, dir, file string }

// newRunner builds the test programs if there is --test. The caller removes r.temp.
func newRunner(ctx context.Context, dir string, tests bool, explore time.Duration, declared []rbac.Declaration,
	progress *output.Progress) (r *runner, err error) {
	r = &runner{dir: dir, explore: explore, declared: declared, progress: progress}
	if r.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if r.temp, err = os.MkdirTemp("", "kelson-rights-"); err != nil {
		return nil, err
	}
	if tests {
		if err := r.build(ctx); err != nil {
			os.RemoveAll(r.temp)
			return nil, err
		}
	}
	return r, nil
}

// build builds the test programs of all packages with tests.
func (r *runner) build(ctx context.Context) error {
	list, err := r.goCommand(ctx, "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}\t{{.Dir}}{{end}}",
		"./...")
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		pkg, dir, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			continue
		}
		t := testBinary{pkg, dir, filepath.Join(r.temp, strconv.Itoa(len(r.tests))+".test")}
		r.progress.Step("building the tests of %s", pkg)
		// -s and -w omit the tables of symbols and of debuggers, which take long to write.
		if _, err := r.goCommand(ctx, "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", t.file, pkg); err != nil {
			return err
		}
		r.tests = append(r.tests, t)
	}
	if len(r.tests) == 0 {
		return fmt.Errorf("--test: no package of %s has tests", r.dir)
	}
	return nil
}

func (r *runner) goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s%s", args[0], err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String(), nil
}

// noOperator is the error of tests in which no operator is recorded.
const noOperator = "--test: no test runs an operator that is recorded: operators in tests with envtest are not, and " +
	"others must be passed to testenv.Run, testenv.Operator, operatortest.Run or operatortest.Operator"

// record runs the tests and the exploration with an administrator's rights, and returns the
// requests of the operator. Later runs skip packages in which no operator runs.
func (r *runner) record(ctx context.Context) (outcome, error) {
	all := outcome{names: rights.Names{}}
	var operators []testBinary
	for _, t := range r.tests {
		r.progress.Step("running the tests of %s", t.pkg)
		o, err := r.run(ctx, "", false, t.dir, t.file, "-test.timeout=10m")
		if err != nil {
			return outcome{}, err
		}
		if o.code != 0 {
			return outcome{}, fmt.Errorf("the tests of %s fail, so what the operator needs is unknown:\n%s", t.pkg,
				o.output)
		}
		if o.events > 0 {
			operators = append(operators, t)
		}
		all.add(o)
	}
	if r.tests != nil && len(operators) == 0 {
		if r.explore == 0 {
			return outcome{}, errors.New(noOperator + "; --explore records the project's program instead")
		}
		fmt.Fprintln(r.progress, noOperator)
	}
	r.tests = operators
	if r.explore > 0 {
		r.progress.Step("exploring faults for %v", r.explore)
		o, err := r.run(ctx, "", false, r.dir, r.self, r.exploreArgs()...)
		if err != nil {
			return outcome{}, err
		}
		if o.events == 0 {
			return outcome{}, fmt.Errorf("the exploration has failed:\n%s", o.output)
		}
		if o.code != 0 {
			fmt.Fprintln(r.progress, "the exploration raised alarms; see kelson explore")
		}
		all.add(o)
	}
	all.requests = rights.General(all.requests, r.declared)
	return all, nil
}

// exploreArgs returns the arguments of this program that explore the project.
func (r *runner) exploreArgs() []string {
	return []string{"explore", r.dir, "--generate=false", "--for", r.explore.String()}
}

// runWithRoles runs the tests, and then the exploration, with the rights of roles. Unless all is
// true, it ends at the first request that RBAC refuses.
func (r *runner) runWithRoles(ctx context.Context, roles []rbac.Role, all bool) (rights.Run, error) {
	doc, err := rbac.YAML(roles)
	if err != nil {
		return rights.Run{}, err
	}
	file := filepath.Join(r.temp, "roles.yaml")
	if err := os.WriteFile(file, doc, 0o600); err != nil {
		return rights.Run{}, err
	}
	var sum outcome
	for _, t := range r.tests {
		o, err := r.run(ctx, file, !all, t.dir, t.file, "-test.timeout=10m")
		if err != nil {
			return rights.Run{}, err
		}
		sum.add(o)
		if len(o.refused) == 0 && o.code != 0 && all {
			return rights.Run{}, fmt.Errorf("under the computed roles, the tests of %s fail without a refusal:\n%s", t.pkg,
				o.output)
		}
		if !all && len(sum.refused) > 0 {
			return r.general(sum), nil
		}
	}
	if r.explore > 0 {
		o, err := r.run(ctx, file, !all, r.dir, r.self, r.exploreArgs()...)
		if err != nil {
			return rights.Run{}, err
		}
		if o.events == 0 {
			return rights.Run{}, fmt.Errorf("under the computed roles, the exploration fails:\n%s", o.output)
		}
		sum.add(o)
	}
	return r.general(sum), nil
}

// general returns the requests of a run without the namespaces of tests and samples.
func (r *runner) general(o outcome) rights.Run {
	return rights.Run{Requests: rights.General(o.requests, r.declared), Refused: rights.General(o.refused, r.declared)}
}

// outcome holds the requests that a run has recorded.
type outcome struct {
	requests, refused []rights.Request
	names             rights.Names
	events            int
	code              int
	output            []byte
}

// add adds the requests of another run.
func (o *outcome) add(other outcome) {
	o.requests, o.refused = append(o.requests, other.requests...), append(o.refused, other.refused...)
	o.events += other.events
	if o.names != nil {
		o.names.Merge(other.names)
	}
}

// run runs a program with a recording. roles is the file with the rights of the operators; "" means
// those of an administrator.
func (r *runner) run(ctx context.Context, roles string, stop bool, dir, program string,
	args ...string) (outcome, error) {
	r.recorded++
	recording := filepath.Join(r.temp, "recording-"+strconv.Itoa(r.recorded))
	if err := os.Mkdir(recording, 0o700); err != nil {
		return outcome{}, err
	}
	defer os.RemoveAll(recording)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, "KELSON_RIGHTS_")
	}),
		"KELSON="+r.self, record.Dir+"="+recording, record.Roles+"="+roles, record.Stop+"="+strconv.FormatBool(stop))
	cmd.WaitDelay = 10 * time.Second
	var out lastBytes
	cmd.Stdout, cmd.Stderr = &out, &out
	err := child.Run(cmd) // a group, so that the child process of an exploration also ends
	var exited *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return outcome{}, ctx.Err()
	case err != nil && !errors.As(err, &exited):
		return outcome{}, err
	}
	o := outcome{output: out, names: rights.Names{}}
	if exited != nil {
		o.code = exited.ExitCode()
	}
	return o, o.read(recording)
}

// read reads the recordings of all processes of a run.
func (o *outcome) read(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return err
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		a, err := rights.FromAudit(f, rights.Filter{User: record.User})
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		o.add(outcome{requests: a.Requests, refused: a.Refused, names: a.Names, events: a.Events})
	}
	o.requests, o.refused = rights.Union(o.requests), rights.Union(o.refused)
	return nil
}

// lastBytes keeps the last bytes that are written to it.
type lastBytes []byte

// Write implements io.Writer.
func (l *lastBytes) Write(p []byte) (int, error) {
	const kept = 16 << 10
	if *l = append(*l, p...); len(*l) > 2*kept {
		*l = append((*l)[:0], (*l)[len(*l)-kept:]...)
	}
	return len(p), nil
}
