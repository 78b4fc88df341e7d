package main

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
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/operator/client"
)

// clusterFlags say which cluster a command is about.
type clusterFlags struct{ kubeconfig, context string }

func (c *clusterFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: $KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&c.context, "context", "", "the kubeconfig's context to use")
}

// args are the flags for kubectl.
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

// kubectl runs the linked-in kubectl on manifests.
func (c *clusterFlags) kubectl(ctx context.Context, objects manifests.Objects, out, errOut io.Writer, args ...string) (err error) {
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
	command := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{Arguments: append([]string{"kubectl"}, args...), IOStreams: streams})
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
			err = errors.New(strings.TrimPrefix(strings.TrimSpace(strings.ReplaceAll(string(message), file.Name(), "the manifests")), "error: "))
		}
	}()
	return command.ExecuteContext(ctx)
}

// config says how the cluster is reached.
func (c *clusterFlags) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context}).ClientConfig()
}

// isHere says whether the cluster's API server is on this machine, as far as its address tells.
func (c *clusterFlags) isHere() bool {
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

// apply brings a cluster to what manifests say.
func (c *clusterFlags) apply(command *cobra.Command, objects manifests.Objects) error {
	if err := c.freeConversions(command.Context(), objects); err != nil {
		return err
	}
	return c.kubectl(command.Context(), objects, command.OutOrStdout(), command.ErrOrStderr(),
		"apply", "--server-side", "--force-conflicts", "--field-manager=kelson")
}

// freeConversions has definitions whose objects an operator on a developer's machine converted, by URL, refer to their service again: an
// apply can't take away what another has set, and both together are invalid.
func (c *clusterFlags) freeConversions(ctx context.Context, objects manifests.Objects) error {
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
		is := &unstructured.Unstructured{}
		is.SetGroupVersionKind(obj.GroupVersionKind())
		if err := objectClient.Get(ctx, client.Key{Name: obj.GetName()}, is); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return err
		}
		if by, _, _ := unstructured.NestedString(is.Object, append(path, "url")...); by == "" {
			continue
		}
		patch, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec/conversion/webhook/clientConfig", "value": config}})
		if err != nil {
			return err
		}
		if err := objectClient.Patch(ctx, is, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			return fmt.Errorf("conversion of %s: %w", obj.GetName(), err)
		}
	}
	return nil
}

// delete removes what manifests name and waits until it is gone: first the definitions, as long as there is an operator that lets go of
// their objects, then the rest, the last first.
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
