package operator

import (
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "k8s.io/client-go/discovery"
	_ "k8s.io/client-go/kubernetes/scheme"
	_ "k8s.io/client-go/rest"
	_ "k8s.io/client-go/restmapper"
	_ "k8s.io/client-go/tools/clientcmd"
	_ "sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)
