// Command cloud-controller-manager is an external cloud controller manager of a cloud that exists
// only in its memory, on the framework of k8s.io/cloud-provider. test/takeover runs it.
package main

import (
	"context"
	"net"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/fake"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
)

func main() {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatal(err)
	}
	command := app.NewCloudControllerManagerCommand(opts, newCloud, app.DefaultInitFuncConstructors,
		names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop)
	os.Exit(cli.Run(command))
}

// newCloud returns a cloud that keeps routes in memory. Every node is an instance of the same type
// and zone, and all load balancers have the same address.
func newCloud(*config.CompletedConfig) cloudprovider.Interface {
	return &fake.Cloud{
		Provider: "fake", EnableInstancesV2: true, ExistsByProviderID: true, ClusterList: []string{"one"},
		RouteMap:   map[string]*fake.Route{},
		ExternalIP: net.ParseIP("203.0.113.7"),
		OverrideInstanceMetadata: func(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
			return &cloudprovider.InstanceMetadata{
				ProviderID: "fake://" + node.Name, InstanceType: "fake.large", Zone: "zone-1", Region: "region-1",
				NodeAddresses: []corev1.NodeAddress{
					{Type: corev1.NodeHostName, Address: node.Name},
					// a cloud must return the address that the node itself reports
					{Type: corev1.NodeInternalIP,
						Address: node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]},
					{Type: corev1.NodeExternalIP, Address: "198.51.100.9"},
				},
			}, nil
		},
	}
}
