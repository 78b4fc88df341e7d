package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/util/homedir"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/node/process"
)

// podFlags are the flags with which the user consents to running pods on this machine.
type podFlags struct {
	users      bool
	unconfined bool
	// mayFallBack runs pods unconfined if the system cannot confine them. It is safe only if only
	// the user of this process can create pods.
	mayFallBack bool
	// images are directories with the files of images, each as IMAGE=DIR.
	images []string
}

const (
	usersFlag      = "let-users-run-commands-on-this-machine"
	unconfinedFlag = "run-pods-unconfined-as-this-user"
	imageFlag      = "node-image"
)

func (o *podFlags) addUsersFlag(f *pflag.FlagSet) {
	f.BoolVar(&o.users, usersFlag, false, "with --node=process, accept users other than the administrator; users who can create pods can then run commands on this machine")
}

func (o *podFlags) addUnconfinedFlag(f *pflag.FlagSet) {
	f.BoolVar(&o.unconfined, unconfinedFlag, false,
		"with --node=process, run pods with all rights of this user; they can then read and change the data directory with the authority's key, kubeconfigs and home directories")
}

func (o *podFlags) addImageFlag(f *pflag.FlagSet) {
	f.StringArrayVar(&o.images, imageFlag, nil,
		"with --node=process, IMAGE=DIR: containers with this image find the entries of the directory, such as a program, in their root directory; may be repeated")
}

// check returns an error if pods run as processes, others can create pods, and the user did not
// consent.
func (o *podFlags) check(node controlplane.Node, others []string) error {
	_, processes := node.(controlplane.Processes)
	switch {
	case !processes && (o.users || o.unconfined):
		return fmt.Errorf("--%s and --%s need --node=process", usersFlag, unconfinedFlag)
	case !processes && len(o.images) > 0:
		return fmt.Errorf("--%s needs --node=process", imageFlag)
	case o.unconfined && len(o.images) > 0:
		return fmt.Errorf("--%s needs pods with their own root directories: omit --%s", imageFlag, unconfinedFlag)
	case !processes || o.users || len(others) == 0:
		return nil
	}
	return fmt.Errorf("--node=process runs the commands of pods on this machine, and this server accepts users other than its administrator (%s): "+
		"pass --%s to allow this, or use another --node", strings.Join(others, "; "), usersFlag)
}

// apply sets how the pods of node run, and which files are hidden from them.
func (o *podFlags) apply(node *controlplane.Processes, dir, kubeconfig string) error {
	for _, image := range o.images {
		name, files, ok := strings.Cut(image, "=")
		if !ok || name == "" || files == "" {
			return fmt.Errorf("--%s %q: must be IMAGE=DIR", imageFlag, image)
		}
		files, err := filepath.Abs(files)
		if err != nil {
			return err
		}
		if info, err := os.Stat(files); err != nil || !info.IsDir() {
			return fmt.Errorf("--%s %q: %s is not a directory", imageFlag, image, files)
		}
		if node.Images == nil {
			node.Images = map[string]string{}
		}
		node.Images[name] = files
	}
	node.Unconfined = o.unconfined
	node.Hidden = []string{dir, kubeconfig, homedir.HomeDir(), "/root"}
	node.Hidden = append(node.Hidden, filepath.SplitList(os.Getenv("KUBECONFIG"))...)
	node.Hidden = slices.DeleteFunc(node.Hidden, func(name string) bool {
		return !filepath.IsAbs(name) || name == "/"
	})
	return nil
}

// explain adds a remedy to process.ErrNotConfined and process.ErrUnsupported.
func (o *podFlags) explain(err error) error {
	if errors.Is(err, process.ErrUnsupported) {
		return fmt.Errorf("%w: use --node=simulated", err)
	}
	if !errors.Is(err, process.ErrNotConfined) {
		return err
	}
	return fmt.Errorf("%w: run kelson as root, allow user namespaces, use another --node, or pass --%s", err,
		unconfinedFlag)
}

// podWarning returns the warning about pods to print at the start; "" if pods do not run as
// processes.
func podWarning(c process.Confinement) string {
	const end = "They share the network, processors and memory of this machine."
	switch c {
	case process.ConfinedRoot:
		return "WARNING: pods run as processes of this machine, each with its own root directory and without access to this user's files. " + end
	case process.ConfinedUser:
		return "WARNING: pods run as processes of this machine, each as an unprivileged user that can read what file permissions allow. " + end
	case process.Unconfined:
		return "WARNING: pods run as processes of this machine WITH ALL RIGHTS OF THIS USER: every user who can create a pod can read the authority's key and this user's files."
	}
	return ""
}

// otherUsers lists the settings and bindings that admit users other than the administrator whose
// kubeconfig is written. It sees only the state at the start: rights that the administrator grants
// later are the administrator's decision.
func otherUsers(opts *Options, cfg *controlplane.Config) (others []string) {
	if ip := net.ParseIP(opts.bindAddress); opts.bindAddress != "localhost" && (ip == nil || !ip.IsLoopback()) {
		others = append(others, "--bind-address "+opts.bindAddress)
	}
	auth := &cfg.Authentication
	for _, source := range []struct {
		flag string
		set  bool
	}{
		{"client-ca-file", auth.ClientCAFile != ""}, {"token-auth-file", auth.TokenFile != ""},
		{"authentication-config", auth.ConfigFile != ""},
		{"enable-bootstrap-token-auth", auth.AcceptBootstrapTokens},
		{"requestheader-client-ca-file", auth.RequestHeader != nil},
		{"oidc-issuer-url", auth.OIDC != nil}, {"authentication-token-webhook-config-file", auth.Webhook != nil},
		{"service-account-key-file", len(cfg.ServiceAccounts.Keys) > 0},
		{"authorization-config", cfg.Authorization.File != ""},
	} {
		if source.set {
			others = append(others, "--"+source.flag)
		}
	}
	for _, mode := range cfg.Authorization.Modes {
		if mode == authz.ModeAlwaysAllow || mode == authz.ModeABAC || mode == authz.ModeWebhook {
			others = append(others, "--authorization-mode "+mode)
		}
	}
	if cfg.Store != nil {
		others = append(others, boundUsers(cfg.Store.Snapshot())...)
	}
	return others
}

// boundUsers lists the first ClusterRoleBinding and the first RoleBinding with a subject other than
// service accounts and predefined users and groups.
func boundUsers(sn *store.Snapshot) (bindings []string) {
	for b, err := range derived.List[rbacv1.ClusterRoleBinding](sn, "clusterrolebindings."+rbacv1.GroupName, "") {
		if err == nil && bindsOthers(b.Labels, b.Subjects) {
			bindings = append(bindings, "ClusterRoleBinding "+b.Name)
			break
		}
	}
	for b, err := range derived.List[rbacv1.RoleBinding](sn, "rolebindings."+rbacv1.GroupName, "") {
		if err == nil && bindsOthers(b.Labels, b.Subjects) {
			bindings = append(bindings, "RoleBinding "+b.Namespace+"/"+b.Name)
			break
		}
	}
	return bindings
}

// bindsOthers reports whether a binding is not one of the defaults and names a subject other than
// service accounts and system:masters.
func bindsOthers(labels map[string]string, subjects []rbacv1.Subject) bool {
	return labels["kubernetes.io/bootstrapping"] != "rbac-defaults" &&
		slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			return s.Kind != rbacv1.ServiceAccountKind &&
				(s.Kind != rbacv1.GroupKind || s.Name != user.SystemPrivilegedGroup)
		})
}
