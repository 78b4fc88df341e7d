// Package rights implements kelson rights.
package rights

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"

	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/lab/rights"
	"kelson.dev/toolchain/gen/rbac"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// options are the flags of kelson rights.
type options struct {
	audit          string
	filter         rights.Filter
	tests          bool
	explore, prove bool
	limit          time.Duration
	yaml           bool
	names          bool
	name           string
	format         output.Format
}

// Command returns kelson rights.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "rights [DIR]",
		Short: "Compare the rules that an operator declares with the requests that it makes",
		Long: `Compare the rules that an operator declares with the requests that it makes.

The requests come from one or more of these sources:

  --test        the project's tests run, and the requests of the operators that
                they pass to testenv and operatortest are recorded. They have an
                administrator's rights, so that a missing rule hides no others.
  --explore     the operator is explored as by kelson explore, and its requests
                after faults are recorded too, so that error paths count
  --audit-log   an audit log, of any cluster, that was written while the operator
                ran, at level Metadata or higher

The command reports requests that no rule of the project allows as missing, and
then fails. It reports rules that no request needed as unused. Each report has the
position of the marker, or of the nearest one.

With --prove, the tests and the exploration run again with the computed roles,
which must allow every request. The permissions that the operator does not use in
this run are then removed together, and it runs again. If no request is refused,
they are not shown to be needed: the command lists them and fails.

With --yaml, the command prints the smallest Role and ClusterRole that allow the
requests. With --audit-log and --yaml, it needs no project. With --resource-names,
rules have resourceNames where all requests name the same objects.`,
		Example: `  kelson rights --test
  kelson rights --test --explore --for 1m --prove
  kelson rights --test --yaml >config/rbac/least.yaml
  kelson rights --audit-log audit.log --user system:serviceaccount:shop:manager`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(c); err != nil {
				return err
			}
			return run(c, project.Folder(args), o)
		},
	}
	c.Flags().StringVar(&o.audit, "audit-log", "", "audit log in JSON; - is standard input")
	c.Flags().StringVar(&o.filter.User, "user", "", "user name of the operator in the audit log")
	c.Flags().StringVar(&o.filter.UserAgent, "user-agent", "",
		"beginning of the operator's User-Agent in the audit log, instead of or beside its name")
	c.Flags().BoolVar(&o.tests, "test", false, "record the requests of the operators in the project's tests")
	c.Flags().BoolVar(&o.explore, "explore", false,
		"record the operator's requests while kelson explore injects faults")
	c.Flags().DurationVar(&o.limit, "for", 30*time.Second, "duration of each exploration")
	c.Flags().BoolVar(&o.prove, "prove", false,
		"run under the computed roles, and again without the permissions that this run did not use")
	c.Flags().BoolVar(&o.names, "resource-names", false,
		"restrict computed rules to the names of objects where all requests name the same ones; needs --yaml or --prove")
	o.format.AddFlag(c)
	c.Flags().BoolVar(&o.yaml, "yaml", false, "print the smallest roles that allow the requests")
	c.Flags().StringVar(&o.name, "name", rbac.DefaultRole, "name of the computed roles")
	return c
}

// check returns an error for flags that contradict each other or have no effect.
func (o *options) check(c *cobra.Command) error {
	runs := o.tests || o.explore
	switch {
	case o.audit == "" && !runs:
		return errors.New("no source of requests: pass --test, --explore or --audit-log")
	case o.audit != "" && o.filter.User == "" && o.filter.UserAgent == "":
		return errors.New("--audit-log needs --user or --user-agent, the name of the operator in the log")
	case o.audit == "" && (o.filter.User != "" || o.filter.UserAgent != ""):
		return errors.New("--user and --user-agent have no effect without --audit-log")
	case o.prove && !runs:
		return errors.New("--prove runs the operator again: it needs --test or --explore")
	case c.Flags().Changed("for") && !o.explore:
		return errors.New("--for has no effect without --explore")
	case o.limit <= 0:
		return fmt.Errorf("--for %v: want a positive duration", o.limit)
	case o.names && !o.yaml && !o.prove:
		return errors.New("--resource-names restricts the computed roles: it needs --yaml or --prove")
	case o.yaml && o.format != output.Text:
		return errors.New("--yaml and --output cannot be used together: the roles are always YAML")
	}
	return nil
}

func run(c *cobra.Command, dir string, o options) error {
	var all []rights.Request
	names := rights.Names{}
	events := 0
	if o.audit != "" {
		a, err := readAudit(o.audit, o.filter)
		if err != nil {
			return err
		}
		all, names, events = a.Requests, a.Names, a.Events
	}
	if o.yaml && !o.tests && !o.explore {
		return o.printRoles(c, all, names)
	}
	d, err := declaredIn(c.Context(), dir, c.ErrOrStderr())
	if err != nil {
		return err
	}
	bound, err := deployedRoles(d.dir)
	if err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "warning: only markers are compared, not the roles that the project deploys: %v\n",
			err)
	}
	d.roles = append(d.roles, bound...)
	var r *runner
	progress := output.NewProgress(c.ErrOrStderr())
	progress.Lines = true
	defer progress.Done()
	if o.tests || o.explore {
		if !o.explore {
			o.limit = 0
		}
		if r, err = newRunner(c.Context(), d.dir, o.tests, o.limit, d.markers, progress); err != nil {
			return err
		}
		defer os.RemoveAll(r.temp)
		recorded, err := r.record(c.Context())
		if err != nil {
			return err
		}
		all, events = rights.Union(all, recorded.requests), events+recorded.events
		names.Merge(recorded.names)
	}
	var proof *rights.Proof
	if o.prove {
		if proof, err = o.provenBy(c.Context(), r, all, names, progress); err != nil {
			return err
		}
	}
	progress.Done()
	if o.yaml {
		return errors.Join(o.printRoles(c, all, names), unproved(proof))
	}
	return d.compare(all, events, proof, o.format, c.OutOrStdout())
}

// provenBy runs the operator under the computed roles.
func (o *options) provenBy(ctx context.Context, r *runner, requests []rights.Request, names rights.Names,
	progress *output.Progress) (*rights.Proof, error) {
	progress.Step("running under the computed roles")
	p, err := rights.Prove(ctx, o.name, requests, o.restricted(names), r.runWithRoles, func(without []rights.Request) {
		progress.Step("running without %d permissions that were not used again", len(without))
	})
	return &p, err
}

// restricted returns names if rules are to have resourceNames.
func (o *options) restricted(names rights.Names) rights.Names {
	if !o.names {
		return nil
	}
	return names
}

// printRoles prints the least roles, and to the standard error which of their rules could have
// resourceNames.
func (o *options) printRoles(c *cobra.Command, requests []rights.Request, names rights.Names) error {
	doc, err := rbac.YAML(rights.Roles(o.name, requests, o.restricted(names)))
	if err != nil {
		return err
	}
	if could := names.Restrictable(); !o.names && len(could) > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "--resource-names could restrict rules to the names in all requests: %s\n",
			strings.Join(could, "; "))
	}
	_, err = c.OutOrStdout().Write(doc)
	return err
}

// readAudit returns an error if the log has no request of the operator. The error names the users
// in the log.
func readAudit(name string, filter rights.Filter) (rights.Audit, error) {
	var in io.Reader = os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return rights.Audit{}, err
		}
		defer f.Close()
		in = f
	}
	a, err := rights.FromAudit(in, filter)
	switch {
	case err != nil:
		return a, err
	case len(a.Users) == 0:
		return a, fmt.Errorf("%s is empty", name)
	case a.Events == 0:
		agent := ""
		if filter.UserAgent != "" {
			agent = fmt.Sprintf(" with a User-Agent that begins with %q", filter.UserAgent)
		}
		users := strings.Join(slices.Sorted(maps.Keys(a.Users)), ", ")
		return a, fmt.Errorf("%s has no requests of user %q%s; it has requests of %s", name, filter.User, agent, users)
	}
	return a, nil
}

// declared holds the rules that a project declares.
type declared struct {
	dir     string
	roles   []rbac.Role // with the rules that the generator derives
	markers []rbac.Declaration
}

// declaredIn reads the markers of the project in dir. As in kelson generate, markers that
// controller-gen ignores are errors, but warnings if Kelson did not create the project.
func declaredIn(ctx context.Context, dir string, warnings io.Writer) (*declared, error) {
	ws, err := loader.Open(ctx, loader.Config{Dir: dir})
	if err != nil {
		return nil, err
	}
	api, err := model.Build(ws, marker.Standard())
	if err != nil {
		return nil, err
	}
	if len(api.MarkerErrors) > 0 {
		existing, err := project.Existing(ws.Dir())
		if err := errors.Join(err, errors.Join(api.MarkerErrors...)); !existing {
			return nil, err
		}
		for _, ignored := range api.MarkerErrors {
			fmt.Fprintf(warnings, "warning: %v\n", ignored)
		}
	}
	d := &declared{dir: ws.Dir(), markers: rbac.Declared(api)}
	d.roles, _ = rbac.Roles(api, ws, rbac.DefaultRole) // kelson generate prints the warnings
	for i, m := range d.markers {
		if rel, err := filepath.Rel(ws.Dir(), m.Pos.Filename); err == nil && filepath.IsLocal(rel) {
			d.markers[i].Pos.Filename = rel
		}
	}
	return d, nil
}

func (d *declared) compare(requests []rights.Request, events int, proof *rights.Proof, format output.Format,
	out io.Writer) error {
	c := rights.Compare(requests, d.roles, d.markers)
	if format != output.Text {
		if err := format.Print(out, d.result(requests, events, c, proof)); err != nil {
			return err
		}
		return errors.Join(failed(c), unproved(proof))
	}
	color := output.ColorsFor(out)
	for _, r := range c.Missing {
		if near, ok := rights.Near(d.markers, r); ok {
			fmt.Fprintf(out, "%v: ", near)
		}
		fmt.Fprintf(out, "%s %v\n", color.Bad("missing:"), r)
	}
	for _, u := range c.Unused {
		fmt.Fprintln(out, u)
	}
	if proof != nil {
		for _, r := range proof.Refused {
			fmt.Fprintf(out, "refused under the computed roles: %v\n", r)
		}
		for _, r := range proof.NotShown {
			fmt.Fprintf(out, "not shown to be needed: %v\n", r)
		}
	}
	markers := "markers"
	if len(c.Unused) == 1 {
		markers = "marker"
	}
	fmt.Fprintf(out, "%d requests, which need %d rules: %d missing, %d %s with unused verbs\n", events, len(requests),
		len(c.Missing), len(c.Unused), markers)
	if proof != nil && len(proof.Refused) == 0 {
		runs := "1 run"
		if proof.Runs > 1 {
			runs = fmt.Sprintf("%d runs", proof.Runs)
		}
		fmt.Fprintf(out, "proof: no refusal under the computed roles; %d rules are needed, %d are not shown to be needed (%s)\n",
			len(proof.Shown), len(proof.NotShown), runs)
	}
	return errors.Join(failed(c), unproved(proof))
}

// result is the comparison in JSON and YAML.
type result struct {
	Events  int      `json:"events"` // requests of the operator
	Rules   int      `json:"rules"`  // that the requests need
	Missing []rule   `json:"missing"`
	Unused  []unused `json:"unused"`
	Proof   *proved  `json:"proof,omitempty"` // of --prove
}

// proved is the proof in JSON and YAML.
type proved struct {
	Refused  []rule `json:"refused"`  // under the computed roles
	Shown    []rule `json:"shown"`    // rules that a run needed
	NotShown []rule `json:"notShown"` // the others
	Runs     int    `json:"runs"`
}

type rule struct {
	Verb      string `json:"verb"`
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	URL       string `json:"url,omitempty"`
	// File and Line are those of the nearest marker, for rules that are missing.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

func ruleOf(r rights.Request) rule {
	return rule{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Namespace: r.Namespace, URL: r.URL}
}

func rulesOf(requests []rights.Request) []rule {
	rules := []rule{}
	for _, r := range requests {
		rules = append(rules, ruleOf(r))
	}
	return rules
}

type unused struct {
	File      string            `json:"file"`
	Line      int               `json:"line"`
	Namespace string            `json:"namespace,omitempty"`
	Rule      rbacv1.PolicyRule `json:"rule"`
	Verbs     []string          `json:"verbs,omitempty"` // that were not needed; empty: see used
	Used      []string          `json:"used,omitempty"`
}

func (d *declared) result(requests []rights.Request, events int, c rights.Comparison, proof *rights.Proof) result {
	r := result{Events: events, Rules: len(requests), Missing: []rule{}, Unused: []unused{}}
	for _, m := range c.Missing {
		missing := ruleOf(m)
		if near, ok := rights.Near(d.markers, m); ok {
			missing.File, missing.Line = near.Filename, near.Line
		}
		r.Missing = append(r.Missing, missing)
	}
	for _, u := range c.Unused {
		r.Unused = append(r.Unused, unused{u.Pos.Filename, u.Pos.Line, u.Namespace, u.Rule, u.Verbs, u.Used})
	}
	if proof != nil {
		r.Proof = &proved{rulesOf(proof.Refused), rulesOf(proof.Shown), rulesOf(proof.NotShown), proof.Runs}
	}
	return r
}

// unproved returns an error if a proof has failed; proof may be nil.
func unproved(proof *rights.Proof) error {
	switch {
	case proof == nil:
		return nil
	case len(proof.Refused) > 0:
		return fmt.Errorf("the computed roles are not sufficient: %d requests that the first run did not make were refused, such as %v", len(proof.Refused), proof.Refused[0])
	case len(proof.NotShown) > 0:
		return fmt.Errorf("%d of %d rules are not shown to be needed", len(proof.NotShown),
			len(proof.NotShown)+len(proof.Shown))
	}
	return nil
}

// failed returns an error if rules are missing.
func failed(c rights.Comparison) error {
	if len(c.Missing) > 0 {
		return fmt.Errorf("the project's roles do not allow %d of the operator's requests", len(c.Missing))
	}
	return nil
}
