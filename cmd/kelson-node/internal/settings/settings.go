//go:build linux

// Package settings writes the configuration files of containerd, kubelet, kube-proxy and the pod
// network.
package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentconfig "k8s.io/component-base/config/v1alpha1"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	utilnet "k8s.io/utils/net"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// Kubelet are the values of kubelet's configuration that differ between machines and clusters.
type Kubelet struct {
	Endpoint      string // of the container runtime
	Authority     string // file that verifies clients, which are API servers
	CgroupVersion int
	SystemdCgroup bool
	CgroupRoot    string   // below which kubelet creates cgroups; "" is the root of the machine
	DNS           []string // addresses of the cluster's DNS
	Domain        string   // of the cluster's DNS
	Resolver      string   // resolv.conf of pods that use the machine's DNS
	Port          int32
	HealthzPort   int32
	StaticPods    string // directory
	Logs          string // directory of the containers' logs
}

// Config returns kubelet's configuration.
func (k Kubelet) Config() *kubeletconfig.KubeletConfiguration {
	driver := "cgroupfs"
	if k.SystemdCgroup {
		driver = "systemd"
	}
	cfg := &kubeletconfig.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeletconfig.SchemeGroupVersion.String(),
			Kind: "KubeletConfiguration"},
		ContainerRuntimeEndpoint: k.Endpoint,
		CgroupDriver:             driver,
		CgroupRoot:               k.CgroupRoot,
		ClusterDNS:               k.DNS,
		ClusterDomain:            k.Domain,
		ResolverConfig:           ptr.To(k.Resolver),
		Port:                     k.Port,
		HealthzPort:              ptr.To(k.HealthzPort),
		PodLogsDir:               k.Logs,
		RotateCertificates:       true,
		ServerTLSBootstrap:       true,
		FailSwapOn:               ptr.To(false),
		Authentication: kubeletconfig.KubeletAuthentication{
			X509:      kubeletconfig.KubeletX509Authentication{ClientCAFile: k.Authority},
			Webhook:   kubeletconfig.KubeletWebhookAuthentication{Enabled: ptr.To(true)},
			Anonymous: kubeletconfig.KubeletAnonymousAuthentication{Enabled: ptr.To(false)},
		},
		Authorization: kubeletconfig.KubeletAuthorization{
			Mode: kubeletconfig.KubeletAuthorizationModeWebhook},
		NodeStatusReportFrequency: metav1.Duration{Duration: time.Minute},
		ShutdownGracePeriod:       metav1.Duration{},
	}
	if k.CgroupVersion == 1 {
		// kubelet refuses cgroups of version 1 by default. LocalStorageCapacityIsolation needs a
		// machine whose storage only kubelet manages. CgroupsPerQOS stays true: with false, kubelet
		// 1.37 panics when the resources of a pod change, and again at each start.
		cfg.FailCgroupV1 = ptr.To(false)
		cfg.LocalStorageCapacityIsolation = ptr.To(false)
	}
	return cfg
}

// Proxy returns kube-proxy's configuration. podCIDR may be empty.
func Proxy(mode, kubeconfig, name, podCIDR string) *proxyconfig.KubeProxyConfiguration {
	cfg := &proxyconfig.KubeProxyConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: proxyconfig.SchemeGroupVersion.String(),
			Kind: "KubeProxyConfiguration"},
		ClientConnection: componentconfig.ClientConnectionConfiguration{Kubeconfig: kubeconfig},
		HostnameOverride: name,
		Mode:             proxyconfig.ProxyMode(mode),
		ClusterCIDR:      podCIDR,
		// The owner of the machine sets its connection tracking limits.
		Conntrack: proxyconfig.KubeProxyConntrackConfiguration{
			MaxPerCore: ptr.To[int32](0), TCPEstablishedTimeout: &metav1.Duration{},
			TCPCloseWaitTimeout: &metav1.Duration{},
		},
	}
	if podCIDR == "" {
		cfg.DetectLocalMode = "NodeCIDR"
	}
	return cfg
}

// networkName is the name of the pod network, and Bridge its network device.
const (
	networkName = "kelson"
	Bridge      = "kelson0"
)

// Network returns the CNI configuration of a bridge whose pods get an address of each range.
// Packets of pods to other addresses leave with the address of the machine. The directory data
// records which addresses are in use.
func Network(podCIDRs []string, data string) ([]byte, error) {
	var ranges [][]map[string]any
	var routes []map[string]any
	for _, podCIDR := range podCIDRs {
		to := "0.0.0.0/0"
		if utilnet.IsIPv6CIDRString(podCIDR) {
			to = "::/0"
		}
		ranges = append(ranges, []map[string]any{{"subnet": podCIDR}})
		routes = append(routes, map[string]any{"dst": to})
	}
	return json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0",
		"name":       networkName,
		"plugins": []map[string]any{
			{
				"type": "bridge", "bridge": Bridge, "isGateway": true, "hairpinMode": true,
				"ipam": map[string]any{"type": "host-local", "dataDir": data, "ranges": ranges, "routes": routes},
			},
			{"type": "portmap", "capabilities": map[string]any{"portMappings": true}},
		},
	}, "", "  ")
}

// Containerd are the values of containerd's configuration.
type Containerd struct {
	Root, State, Socket string
	Plugins, Network    string // directories of CNI plugins and configurations
	Pause               string // image of sandboxes
	// RestrictOOMScore raises the OOM scores of containers to that of containerd, for kernels that
	// do not allow containerd to set lower ones.
	RestrictOOMScore bool
	SystemdCgroup    bool
}

// containerdConfig is read by containerd 1.x and, converted by it, by containerd 2.
var containerdConfig = template.Must(template.New("").Parse(`# Written by kelson-node.
version = 2
root = {{printf "%q" .Root}}
state = {{printf "%q" .State}}

[grpc]
  address = {{printf "%q" .Socket}}

[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = {{.RestrictOOMScore}}
  sandbox_image = {{printf "%q" .Pause}}
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {{printf "%q" .Plugins}}
    conf_dir = {{printf "%q" .Network}}
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = {{.SystemdCgroup}}
`))

// Config returns the configuration file.
func (c Containerd) Config() ([]byte, error) {
	var b bytes.Buffer
	err := containerdConfig.Execute(&b, c)
	return b.Bytes(), err
}

// Write writes a configuration as YAML, readable by the owner only.
func Write(file string, config any) error {
	content, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("encode %s: %w", file, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}
