package builtin

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/discovery"
	"kelson.dev/internal/assert"
)

func TestPriorities(t *testing.T) {
	for gv, want := range map[schema.GroupVersion]discovery.Priorities{
		{Version: "v1"}:                                        {Group: 18000, Version: 1},
		{Group: "apps", Version: "v1"}:                         {Group: 17800, Version: 15},
		{Group: "autoscaling", Version: "v2"}:                  {Group: 17500, Version: 30},
		{Group: "certificates.k8s.io", Version: "v1beta1"}:     {Group: 17300, Version: 9},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: {Group: 16100, Version: 21},
		{Group: "example.com", Version: "v1alpha1"}:            {Group: 1000, Version: 100},
	} {
		assert.Equalf(t, Priorities(gv), want, "%s", gv)
	}
}
