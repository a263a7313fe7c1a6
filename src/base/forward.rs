//! A wrapped connection reads and writes as what is in it.

/// Lets a tuple struct read and write as its first field does.
macro_rules! forward_io {
    ($Wrapper:ident) => {
        const _: () = {
            use std::io::{IoSlice, Result};
            use std::pin::Pin;
            use std::task::{Context, Poll};
            use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

            impl AsyncRead for $Wrapper {
                fn poll_read(
                    mut self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                    buf: &mut ReadBuf<'_>,
                ) -> Poll<Result<()>> {
                    Pin::new(&mut self.0).poll_read(cx, buf)
                }
            }

            impl AsyncWrite for $Wrapper {
                fn poll_write(
                    mut self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                    buf: &[u8],
                ) -> Poll<Result<usize>> {
                    Pin::new(&mut self.0).poll_write(cx, buf)
                }

                fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
                    Pin::new(&mut self.0).poll_flush(cx)
                }

                fn poll_shutdown(
                    mut self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                ) -> Poll<Result<()>> {
                    Pin::new(&mut self.0).poll_shutdown(cx)
                }

                fn poll_write_vectored(
                    mut self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                    bufs: &[IoSlice<'_>],
                ) -> Poll<Result<usize>> {
                    Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
                }

                fn is_write_vectored(&self) -> bool {
                    self.0.is_write_vectored()
                }
            }
        };
    };
}
pub(crate) use forward_io;
