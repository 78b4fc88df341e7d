package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	"kelson.dev/cmd/kelson/internal/kubeconfig"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/operator/client"
)

// clusterFlags are the flags that select a cluster.
type clusterFlags struct{ kubeconfig, context string }

func (c *clusterFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: $KUBECONFIG or ~/.kube/config)")
	f.StringVar(&c.context, "context", "", "context of the kubeconfig to use")
}

// generated runs the generators on the project that args name, and returns the objects that read
// finds in its folder.
func generated(c *cobra.Command, args []string, gens project.Generators,
	read func(dir string) (manifests.Objects, error)) (manifests.Objects, error) {
	dir := project.Folder(args)
	if err := project.GenerateManifests(c, dir, gens); err != nil {
		return nil, err
	}
	return read(dir)
}

// deleteCommand returns a command that deletes the objects that read finds in a project's folder.
func deleteCommand(use, short string, read func(dir string) (manifests.Objects, error)) *cobra.Command {
	var cluster clusterFlags
	var ignore bool
	c := &cobra.Command{
		Use:     use,
		Short:   short,
		Example: "  kelson " + strings.Fields(use)[0] + " ./welcome --kubeconfig ~/.kube/config",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := project.Check(project.Folder(args)); err != nil {
				return err
			}
			objects, err := read(project.Folder(args))
			if err != nil || len(objects) == 0 {
				return err
			}
			return cluster.delete(c, objects, ignore)
		},
	}
	cluster.addFlags(c.Flags())
	c.Flags().BoolVar(&ignore, "ignore-not-found", false, "do not fail if an object does not exist")
	return c
}

// args returns the flags for kubectl.
func (c *clusterFlags) args() []string {
	var args []string
	if c.kubeconfig != "" {
		args = append(args, "--kubeconfig="+c.kubeconfig)
	}
	if c.context != "" {
		args = append(args, "--context="+c.context)
	}
	return args
}

// kubectl runs the linked-in kubectl on manifests. It must not be called concurrently: it sets
// kubectl's process-wide handler of fatal errors.
func (c *clusterFlags) kubectl(ctx context.Context, objects manifests.Objects, out, errOut io.Writer,
	args ...string) (err error) {
	input, err := objects.YAML()
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "kelson-*.yaml")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(input)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	args = append(args, "--filename="+file.Name())
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: errOut}
	command := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{Arguments: append([]string{"kubectl"}, args...),
		IOStreams: streams})
	command.SetArgs(append(args, c.args()...))
	type fatal string
	util.BehaviorOnFatal(func(message string, _ int) { panic(fatal(message)) })
	defer util.DefaultBehaviorOnFatal()
	defer func() {
		if r := recover(); r != nil {
			message, ok := r.(fatal)
			if !ok {
				panic(r)
			}
			err = errors.New(strings.TrimPrefix(strings.TrimSpace(strings.ReplaceAll(string(message), file.Name(),
				"the manifests")), "error: "))
		}
	}()
	return command.ExecuteContext(ctx)
}

// config returns the client configuration of the cluster.
func (c *clusterFlags) config() (*rest.Config, error) {
	config, _, err := kubeconfig.Load(c.kubeconfig, c.context)
	if err == nil {
		config.WarningHandler = rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true})
	}
	return config, err
}

// onLoopback reports whether the address of the cluster's API server is a loopback address.
func (c *clusterFlags) onLoopback() bool {
	config, err := c.config()
	if err != nil {
		return false
	}
	at, err := url.Parse(config.Host)
	if err != nil {
		return false
	}
	ip := net.ParseIP(at.Hostname())
	return at.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// apply applies manifests with server-side apply.
func (c *clusterFlags) apply(command *cobra.Command, objects manifests.Objects) error {
	if err := c.resetConversions(command.Context(), objects); err != nil {
		return err
	}
	return c.kubectl(command.Context(), objects, command.OutOrStdout(), command.ErrOrStderr(),
		"apply", "--server-side", "--force-conflicts", "--field-manager=kelson")
}

// resetConversions replaces the URLs of conversion webhooks, which an operator on a developer's
// machine registered, by the service in the manifests. Server-side apply cannot remove a URL that
// another field manager owns, and a URL and a service together are invalid.
func (c *clusterFlags) resetConversions(ctx context.Context, objects manifests.Objects) error {
	path := []string{"spec", "conversion", "webhook", "clientConfig"}
	var objectClient client.Client
	for _, obj := range objects {
		config, ok, _ := unstructured.NestedMap(obj.Object, path...)
		if !ok || obj.GetKind() != "CustomResourceDefinition" || config["service"] == nil {
			continue
		}
		if objectClient == nil {
			config, err := c.config()
			if err != nil {
				return err
			}
			if objectClient, err = client.New(client.Config{REST: config, FieldOwner: "kelson"}); err != nil {
				return err
			}
		}
		existing := &unstructured.Unstructured{}
		existing.SetGroupVersionKind(obj.GroupVersionKind())
		if err := objectClient.Get(ctx, client.Key{Name: obj.GetName()}, existing); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return err
		}
		if by, _, _ := unstructured.NestedString(existing.Object, append(path, "url")...); by == "" {
			continue
		}
		patch, err := json.Marshal([]any{map[string]any{"op": "replace",
			"path": "/spec/conversion/webhook/clientConfig", "value": config}})
		if err != nil {
			return err
		}
		if err := objectClient.Patch(ctx, existing, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			return fmt.Errorf("set conversion webhook of %s: %w", obj.GetName(), err)
		}
	}
	return nil
}

// delete deletes the objects of manifests and waits until they no longer exist: first the
// definitions, while the operator still runs and can finalize their objects, then the rest in
// reverse order.
func (c *clusterFlags) delete(command *cobra.Command, objects manifests.Objects, ignoreNotFound bool) error {
	definitions, rest := objects.Split()
	for _, part := range []manifests.Objects{definitions, rest.Reversed()} {
		if len(part) == 0 {
			continue
		}
		if err := c.remove(command, part, ignoreNotFound); err != nil {
			return err
		}
	}
	return nil
}

func (c *clusterFlags) remove(command *cobra.Command, objects manifests.Objects, ignoreNotFound bool) error {
	return c.kubectl(command.Context(), objects, command.OutOrStdout(), command.ErrOrStderr(),
		"delete", fmt.Sprintf("--ignore-not-found=%t", ignoreNotFound))
}
