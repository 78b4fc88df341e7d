package plan_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/plan"
	"kelson.dev/operator/client"
)

// A plan shows what an operator would do in a cluster.
func Example() {
	ctx := context.Background()
	cluster, err := controlplane.Start(ctx, controlplane.Config{}) // in your program: any cluster
	if err != nil {
		panic(err)
	}
	defer cluster.Stop()

	state, err := plan.Cluster(ctx, cluster.RESTConfig())
	if err != nil {
		panic(err)
	}
	defer state.Close()
	p, err := plan.Run(ctx, state, plan.Config{Quiet: 200 * time.Millisecond,
		Operator: func(ctx context.Context, to plan.Target) error {
			c, err := client.New(client.Config{REST: to.Config})
			if err != nil {
				return err
			}
			settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}}
			if err := c.Create(ctx, settings); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}})
	if err != nil {
		panic(err)
	}
	for _, step := range p.Steps {
		for _, write := range step.Writes {
			fmt.Println(write.Verb, write.Object.Kind, write.Object.Name)
		}
	}
	// Output: create ConfigMap settings
}
