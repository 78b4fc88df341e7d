package main

import (
	"context"

	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"example.com/shop/internal"
)

func main() {
	m, err := ctrl.NewManager(nil, ctrl.Options{Cache: cache.Options{
		NewInformer: func() {},
	}})
	if err != nil {
		panic(err)
	}
	if err := (&internal.ShopReconciler{Client: m.GetClient()}).SetupWithManager(m); err != nil {
		panic(err)
	}
	i, _ := m.GetCache().GetInformer("shops")
	_ = i.(toolscache.SharedIndexInformer).GetStore()
	informers.NewSharedInformerFactory().Start()
	_ = m.Start(context.Background())
}
