package cache

type SharedIndexInformer interface{ GetStore() any }
