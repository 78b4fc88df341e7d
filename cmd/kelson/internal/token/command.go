// Package token implements kelson token, which manages the tokens with which machines join a
// cluster.
package token

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"kelson.dev/cmd/kelson/internal/kubeconfig"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/operator/client"
)

// Command returns kelson token.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Manage the tokens with which machines join the cluster",
		Long: `Manage the tokens with which machines join the cluster as nodes.

A token is a Kubernetes bootstrap token. Its user can request the certificate of a
kubelet and do nothing else. The server must run with --enable-bootstrap-token-auth.`,
		Example: `  kelson token create
  kelson token list
  kelson token delete abcdef`,
		Args: cobra.NoArgs,
	}
	var cluster cluster
	cluster.addFlags(c.PersistentFlags())
	c.AddCommand(createCommand(&cluster), listCommand(&cluster), deleteCommand(&cluster))
	return c
}

// cluster are the flags that select the cluster.
type cluster struct{ kubeconfig, context string }

func (c *cluster) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: $KUBECONFIG or ~/.kube/config)")
	f.StringVar(&c.context, "context", "", "context of the kubeconfig to use")
}

func (c *cluster) connect() (client.Client, *rest.Config, error) {
	cfg, _, err := kubeconfig.Load(c.kubeconfig, c.context)
	if err != nil {
		return nil, nil, err
	}
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return nil, nil, err
	}
	cl, err := client.New(client.Config{REST: cfg, FieldOwner: "kelson-token"})
	return cl, cfg, err
}

func createCommand(cluster *cluster) *cobra.Command {
	var lifetime time.Duration
	var description string
	var servers []string
	var only bool
	var format output.Format
	c := &cobra.Command{
		Use:   "create [TOKEN]",
		Short: "Create a token and print the command with which a machine joins",
		Long: `Create a token and print the command with which a machine joins.

The command also gives the users of such tokens the right to request certificates,
and publishes the address and authority of the server in the ConfigMap cluster-info
of kube-public, which everyone can read. TOKEN is ID.SECRET, of 6 and 16 lower-case
letters and digits; by default it is random.`,
		Example: `  kelson token create --server https://10.0.0.1:6443
  kelson token create --server https://10.0.0.1:6443,https://10.0.0.2:6443
  kelson token create --ttl 10m --token-only`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cl, cfg, err := cluster.connect()
			if err != nil {
				return err
			}
			if len(servers) == 0 {
				servers = []string{cfg.Host}
			}
			token := ""
			if len(args) > 0 {
				token = args[0]
			} else if token, err = bootstraputil.GenerateBootstrapToken(); err != nil {
				return err
			}
			join := Join{Server: servers[0], More: servers[1:], Authority: cfg.CAData, Token: token,
				Description: description, Lifetime: lifetime}
			if err := join.Create(c.Context(), cl); err != nil {
				return err
			}
			if err := verify(c.Context(), cfg, token); err != nil {
				return errors.Join(err, remove(c.Context(), cl, token))
			}
			command, err := join.Args()
			if err != nil {
				return err
			}
			command = append([]string{"kelson-node"}, command...)
			line := strings.Join(command, " ")
			for _, server := range servers {
				if isLoopback(server) && !only {
					fmt.Fprintf(c.ErrOrStderr(),
						"warning: other machines cannot reach %s; pass --server with an address that they can reach\n",
						server)
				}
			}
			switch {
			case format != output.Text:
				return format.Print(c.OutOrStdout(),
					map[string]any{"token": token, "servers": servers, "command": command})
			case only:
				line = token
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), line)
			return err
		},
	}
	c.Flags().DurationVar(&lifetime, "ttl", 24*time.Hour, "lifetime of the token; 0 means forever")
	c.Flags().StringVar(&description, "description", "", "description of the token")
	c.Flags().StringSliceVar(&servers, "server", nil,
		"URL of the server for nodes (default: that of the kubeconfig); may be repeated: nodes use a server that is ready")
	c.Flags().BoolVar(&only, "token-only", false, "print only the token")
	format.AddFlag(c)
	c.MarkFlagsMutuallyExclusive("token-only", "output")
	return c
}

// verify returns an error if the server does not accept the token.
func verify(ctx context.Context, cfg *rest.Config, token string) error {
	as := rest.AnonymousClientConfig(cfg)
	as.BearerToken = token
	h, err := rest.HTTPClientFor(as)
	if err != nil {
		return err
	}
	base, _, err := rest.DefaultServerUrlFor(as)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("api").String(), nil)
	if err != nil {
		return err
	}
	resp, err := h.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized {
		return errors.New("the server does not accept bootstrap tokens: start it with --enable-bootstrap-token-auth")
	}
	return nil
}

func listCommand(cluster *cluster) *cobra.Command {
	var format output.Format
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the tokens, without their secrets",
		Example: "  kelson token list --kubeconfig ./state/kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cl, _, err := cluster.connect()
			if err != nil {
				return err
			}
			var secrets corev1.SecretList
			if err := cl.List(c.Context(), &secrets, client.InNamespace(metav1.NamespaceSystem),
				client.MatchingFields{"type": string(bootstrapapi.SecretTypeBootstrapToken)}); err != nil {
				return err
			}
			if format != output.Text {
				return format.Print(c.OutOrStdout(), map[string]any{"tokens": listed(secrets.Items)})
			}
			return printTokens(c.OutOrStdout(), secrets.Items, time.Now())
		},
	}
	format.AddFlag(c)
	return c
}

// listedToken is a token in JSON and YAML, without its secret.
type listedToken struct {
	ID          string   `json:"id"`
	Expires     string   `json:"expires,omitempty"` // in RFC 3339; empty: never
	Groups      []string `json:"groups"`
	Description string   `json:"description,omitempty"`
}

func listed(secrets []corev1.Secret) []listedToken {
	all := []listedToken{}
	for _, s := range secrets {
		groups := []string{}
		if text := string(s.Data[bootstrapapi.BootstrapTokenExtraGroupsKey]); text != "" {
			groups = strings.Split(text, ",")
		}
		all = append(all, listedToken{
			ID:      string(s.Data[bootstrapapi.BootstrapTokenIDKey]),
			Expires: string(s.Data[bootstrapapi.BootstrapTokenExpirationKey]),
			Groups:  groups, Description: string(s.Data[bootstrapapi.BootstrapTokenDescriptionKey]),
		})
	}
	return all
}

func printTokens(w io.Writer, secrets []corev1.Secret, now time.Time) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "ID\tEXPIRES\tGROUPS\tDESCRIPTION")
	for _, s := range secrets {
		expires := "never"
		if at := string(s.Data[bootstrapapi.BootstrapTokenExpirationKey]); at != "" {
			expires = "invalid: " + at
			if t, err := time.Parse(time.RFC3339, at); err == nil {
				expires = "expired"
				if left := t.Sub(now); left > 0 {
					expires = "in " + duration.HumanDuration(left)
				}
			}
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", s.Data[bootstrapapi.BootstrapTokenIDKey], expires,
			s.Data[bootstrapapi.BootstrapTokenExtraGroupsKey], s.Data[bootstrapapi.BootstrapTokenDescriptionKey])
	}
	return out.Flush()
}

func deleteCommand(cluster *cluster) *cobra.Command {
	return &cobra.Command{
		Use:     "delete ID...",
		Short:   "Delete tokens; nodes that have joined stay",
		Example: "  kelson token delete 07401b",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cl, _, err := cluster.connect()
			if err != nil {
				return err
			}
			var errs []error
			for _, arg := range args {
				id, _, _ := strings.Cut(arg, ".")
				if !bootstraputil.IsValidBootstrapTokenID(id) {
					errs = append(errs, fmt.Errorf("%q is not the ID of a token: want 6 lower-case letters and digits",
						id))
					continue
				}
				switch err := remove(c.Context(), cl, arg); {
				case apierrors.IsNotFound(err):
					errs = append(errs, fmt.Errorf("token %q not found", id))
				case err != nil:
					errs = append(errs, err)
				default:
					fmt.Fprintf(c.OutOrStdout(), "token %q deleted\n", id)
				}
			}
			return errors.Join(errs...)
		},
	}
}

// remove deletes a token, ID or ID.SECRET.
func remove(ctx context.Context, cl client.Client, token string) error {
	id, _, _ := strings.Cut(token, ".")
	return cl.Delete(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: bootstraputil.BootstrapTokenSecretName(id),
			Namespace: metav1.NamespaceSystem},
	})
}

func isLoopback(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
