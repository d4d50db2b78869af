package main

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	managerNamespace = "controller-runtime"
	leaseName        = "interop-leader"
	wantedLabel      = "interop.example.com/copy"
)

// copier keeps a Secret with the data of each labelled ConfigMap, owned by it.
type copier struct{ client.Client }

func (c *copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	source := &corev1.ConfigMap{}
	if err := c.Get(ctx, request.NamespacedName, source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if source.Labels[wantedLabel] == "" || !source.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: source.Name, Namespace: source.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, c.Client, copied, func() error {
		copied.Data = map[string][]byte{}
		for name, value := range source.Data {
			copied.Data[name] = []byte(value)
		}
		return controllerutil.SetControllerReference(source, copied, c.Scheme())
	})
	return ctrl.Result{}, err
}

// managerRun is what the steps of controller-runtime share.
type managerRun struct {
	manager ctrl.Manager
	direct  client.Client
	ended   chan error
}

func managerSteps(config *rest.Config) ([]step, error) {
	log.SetLogger(zap.New(zap.UseDevMode(true)))
	direct, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	lease, renew, retry := 15*time.Second, 10*time.Second, 2*time.Second
	manager, err := ctrl.NewManager(config, ctrl.Options{
		LeaderElection:          true,
		LeaderElectionID:        leaseName,
		LeaderElectionNamespace: managerNamespace,
		LeaseDuration:           &lease,
		RenewDeadline:           &renew,
		RetryPeriod:             &retry,
		Metrics:                 server.Options{BindAddress: "0"},
	})
	if err != nil {
		return nil, err
	}
	run := &managerRun{manager: manager, direct: direct, ended: make(chan error, 1)}
	return []step{
		{"create the Namespace of the Lease", run.createNamespace},
		{"the manager becomes leader and starts", run.start},
		{"the Lease names its holder", run.lease},
		{"a ConfigMap gets its Secret", run.copies},
		{"a change is copied", run.follows},
		{"a deleted Secret is made again", run.repairs},
		{"the Secret goes with its owner", run.collected},
		{"delete the Namespace", run.deleteNamespace},
	}, nil
}

func (run *managerRun) createNamespace(ctx context.Context) error {
	return run.direct.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}})
}

func (run *managerRun) start(ctx context.Context) error {
	reconciler := &copier{run.manager.GetClient()}
	if err := ctrl.NewControllerManagedBy(run.manager).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(reconciler); err != nil {
		return err
	}
	go func() { run.ended <- run.manager.Start(ctx) }()
	select {
	case <-run.manager.Elected():
		return nil
	case err := <-run.ended:
		return fmt.Errorf("it ended: %w", err)
	case <-time.After(patience):
		return fmt.Errorf("not elected within %s", patience)
	}
}

func (run *managerRun) lease(ctx context.Context) error {
	lease := &coordinationv1.Lease{}
	if err := run.direct.Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: leaseName}, lease); err != nil {
		return err
	}
	return expect(lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "", "it has no holder")
}

func (run *managerRun) secret(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := run.direct.Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: "source"}, secret)
	if errors.IsNotFound(err) {
		return nil, nil
	}
	return secret, err
}

// untilCopied waits for a Secret with this color that is another one than `old`.
func (run *managerRun) untilCopied(ctx context.Context, color string, old *corev1.Secret) error {
	return until(ctx, "the Secret", func() (bool, error) {
		secret, err := run.secret(ctx)
		if err != nil || secret == nil {
			return false, err
		}
		isOther := old == nil || secret.UID != old.UID
		return isOther && string(secret.Data["color"]) == color, nil
	})
}

func (run *managerRun) copies(ctx context.Context) error {
	if err := run.direct.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: "source", Labels: map[string]string{wantedLabel: "yes"}},
		Data:       map[string]string{"color": "blue"},
	}); err != nil {
		return err
	}
	return run.untilCopied(ctx, "blue", nil)
}

func (run *managerRun) follows(ctx context.Context) error {
	source := &corev1.ConfigMap{}
	if err := run.direct.Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: "source"}, source); err != nil {
		return err
	}
	before := source.DeepCopy()
	source.Data["color"] = "green"
	if err := run.direct.Patch(ctx, source, client.MergeFrom(before)); err != nil {
		return err
	}
	return run.untilCopied(ctx, "green", nil)
}

func (run *managerRun) repairs(ctx context.Context) error {
	secret, err := run.secret(ctx)
	if err != nil {
		return err
	}
	if err := run.direct.Delete(ctx, secret); err != nil {
		return err
	}
	return run.untilCopied(ctx, "green", secret)
}

func (run *managerRun) collected(ctx context.Context) error {
	source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: "source"}}
	if err := run.direct.Delete(ctx, source); err != nil {
		return err
	}
	return until(ctx, "the Secret's end", func() (bool, error) {
		secret, err := run.secret(ctx)
		return secret == nil, err
	})
}

func (run *managerRun) deleteNamespace(ctx context.Context) error {
	return run.direct.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}})
}
