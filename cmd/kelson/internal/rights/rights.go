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

// Command returns kelson rights.
func Command() *cobra.Command {
	var audit, name string
	var filter rights.Filter
	var yaml bool
	var format output.Format
	c := &cobra.Command{
		Use:   "rights [DIR]",
		Short: "Compare the rules that an operator declares with the requests that it made",
		Long: `Compare the rules that an operator declares with the requests that it made.

The requests come from an audit log, of any cluster, that was written while the
operator ran, at level Metadata or higher. A request that no rule of the project
allows is missing, and the command fails. A rule that no request needed is unused;
it is printed with the position of its marker. Cover error paths before you remove
a rule: requests that the operator did not make are unknown.

With --yaml, the command prints the least Role and ClusterRole that allow the
requests, and needs no project.`,
		Example: `  kelson rights --audit-log audit.log --user system:serviceaccount:shop:manager
  kelson rights --audit-log audit.log --user admin --user-agent manager --yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			a, err := readAudit(audit, filter)
			if err != nil {
				return err
			}
			if yaml && format != output.Text {
				return errors.New("--yaml and --output cannot be used together: the roles are always YAML")
			}
			if yaml {
				doc, err := rbac.YAML(rights.Roles(name, a.Requests))
				if err != nil {
					return err
				}
				_, err = c.OutOrStdout().Write(doc)
				return err
			}
			return compare(c.Context(), project.Folder(args), a, format, c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&audit, "audit-log", "", "audit log in JSON; - is standard input")
	c.Flags().StringVar(&filter.User, "user", "", "user name of the operator")
	c.Flags().StringVar(&filter.UserAgent, "user-agent", "", "beginning of the operator's User-Agent, if others use its name")
	format.AddFlag(c)
	c.Flags().BoolVar(&yaml, "yaml", false, "print the least roles")
	c.Flags().StringVar(&name, "name", rbac.DefaultRole, "name of the roles of --yaml")
	c.MarkFlagRequired("audit-log")
	c.MarkFlagRequired("user")
	return c
}

// readAudit fails if the log has no request of the operator, and names the users that it has.
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
	if err == nil && a.Events == 0 {
		agent := ""
		if filter.UserAgent != "" {
			agent = fmt.Sprintf(" with a User-Agent that begins with %q", filter.UserAgent)
		}
		users := strings.Join(slices.Sorted(maps.Keys(a.Users)), ", ")
		err = fmt.Errorf("%s has no requests of user %q%s; it has requests of %s", name, filter.User, agent, users)
	}
	return a, err
}

func compare(ctx context.Context, dir string, a rights.Audit, format output.Format, out io.Writer) error {
	ws, err := loader.Open(ctx, loader.Config{Dir: dir})
	if err != nil {
		return err
	}
	api, err := model.Build(ws, marker.Standard())
	if err := errors.Join(err, errors.Join(api.MarkerErrors...)); err != nil {
		return err
	}
	roles, _ := rbac.Roles(api, ws) // kelson generate prints the warnings
	c := rights.Compare(a.Requests, roles, rbac.Declared(api))
	for i, u := range c.Unused {
		if rel, err := filepath.Rel(ws.Dir(), u.Pos.Filename); err == nil && filepath.IsLocal(rel) {
			c.Unused[i].Pos.Filename = rel
		}
	}
	if format != output.Text {
		if err := format.Print(out, resultOf(a, c)); err != nil {
			return err
		}
		return failed(c)
	}
	for _, r := range c.Missing {
		fmt.Fprintf(out, "missing: %v\n", r)
	}
	for _, u := range c.Unused {
		fmt.Fprintln(out, u)
	}
	fmt.Fprintf(out, "%d requests, which need %d rules: %d missing, %d markers with unused verbs\n", a.Events, len(a.Requests), len(c.Missing), len(c.Unused))
	return failed(c)
}

// result is the comparison in JSON and YAML.
type result struct {
	Events  int      `json:"events"` // requests of the operator
	Rules   int      `json:"rules"`  // that the requests need
	Missing []rule   `json:"missing"`
	Unused  []unused `json:"unused"`
}

type rule struct {
	Verb      string `json:"verb"`
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	URL       string `json:"url,omitempty"`
}

type unused struct {
	File      string            `json:"file"`
	Line      int               `json:"line"`
	Namespace string            `json:"namespace,omitempty"`
	Rule      rbacv1.PolicyRule `json:"rule"`
	Verbs     []string          `json:"verbs,omitempty"` // that were not needed; empty: see used
	Used      []string          `json:"used,omitempty"`
}

func resultOf(a rights.Audit, c rights.Comparison) result {
	r := result{Events: a.Events, Rules: len(a.Requests), Missing: []rule{}, Unused: []unused{}}
	for _, m := range c.Missing {
		r.Missing = append(r.Missing, rule{m.Verb, m.Group, m.Resource, m.Namespace, m.URL})
	}
	for _, u := range c.Unused {
		r.Unused = append(r.Unused, unused{u.Pos.Filename, u.Pos.Line, u.Namespace, u.Rule, u.Verbs, u.Used})
	}
	return r
}

// failed returns an error if rules are missing.
func failed(c rights.Comparison) error {
	if len(c.Missing) > 0 {
		return fmt.Errorf("the project's roles do not allow %d of the operator's requests", len(c.Missing))
	}
	return nil
}
