# The official image of the very Node that package.json names. The npm package `node` is a copy of the same and stays out;
# in a bare Debian it would lack libatomic, too.
FROM node:26.10.0-trixie-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY main/cli/setup.js main/cli/
# No script of any package is needed; the one of `node` would fetch that copy.
RUN npm run setup -- --ignore-scripts
COPY . .
RUN npm run build
RUN npm prune --omit=dev --ignore-scripts
# A new volume takes the owner of the folder that it covers.
RUN mkdir /data

FROM node:26.10.0-trixie-slim
ENV NODE_ENV=production DATA_DIR=/data LOG_FORMAT=json
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules node_modules/
COPY --from=build /app/dist dist/
COPY --from=build --chown=10001:10001 /data /data
# By number, so that an orchestrator sees that it is not root.
USER 10001:10001
VOLUME ["/data"]
EXPOSE 8080 8081 9464
STOPSIGNAL SIGTERM
# Whether the process lives, not whether it is ready: a full disk is not mended by a restart.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["node", "dist/main", "healthcheck", "/healthz"]
CMD ["node", "dist/main"]
